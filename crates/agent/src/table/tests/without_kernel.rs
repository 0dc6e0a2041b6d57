//! Without the kernel's events: what guests say is all there is.

use super::*;

impl World {
    fn without_kernel() -> World {
        let mut world = World::new();
        world.table.around.has_kernel = false;
        world
    }

    /// A message with memory for late objects, as each guest sends one.
    fn hear_program(&mut self, pid: u32, time: u64, exe: &str, descriptors: &Shares) {
        let start = Start { time, exe: exe.as_bytes().into(), ..Start::default() };
        let held = descriptors.hold(7, 1).expect("descriptors of images that have ended");
        let memory = Some((late_memory(&[(None, "/late.so")]), held));
        let message = Message::Start(Box::new(start));
        self.table.guest(FromGuest { memory, received: time, ..sent(pid, 7, message) });
    }
}

/// The next message of a process is the only sign that its image has executed another program.
#[test]
fn the_next_message_of_a_process_ends_its_image_with_an_exec() {
    let descriptors = Shares::new(8);
    let mut world = World::without_kernel();
    world.proc_entry(10, 1);
    for (time, exe) in [(SECOND, "/a"), (2 * SECOND, "/b"), (3 * SECOND, "/c")] {
        world.hear_program(10, time, exe, &descriptors);
        assert_eq!(descriptors.used(), 1, "only that of the program that runs now, {exe}");
    }
    world.table.gone(10);
    let ended = world.ended();
    let clock = &world.table.around.clock;
    let images: Vec<_> = ended
        .iter()
        .map(|Finished { image, lists, .. }| {
            let exe = image.exe.as_ref().unwrap().to_string();
            (exe, image.key.exec, image.ended_by, image.end, lists.len())
        })
        .collect();
    let until = |time| Some(clock.wall(time));
    assert_eq!(
        images,
        [
            ("/a".to_owned(), 1, EndedBy::Exec, until(2 * SECOND), 1),
            ("/b".to_owned(), 2, EndedBy::Exec, until(3 * SECOND), 1),
            // The last one also had the time to tell what it has loaded later.
            ("/c".to_owned(), 3, EndedBy::Unknown, None, 2),
        ]
    );
    assert_eq!(descriptors.used(), 0);
}

/// Without the kernel's events an image ends with the next message of its process, with a message of another process
/// of its number, or when somebody sees that it is gone: the descriptor it has passed is given back each time.
#[test]
fn without_kernel_events_descriptors_are_given_back_when_images_end() {
    let (executes, another, gone) = (10, 11, 12);
    let descriptors = Shares::new(32);
    let mut world = World::without_kernel();
    let mut without_late = 0;
    for round in 1..=20 {
        world.proc_entry(executes, 1);
        world.proc_entry(another, 1000 * round);
        world.proc_entry(gone, 1000 * round);
        for pid in [executes, another, gone] {
            world.hear_program(pid, round * 10 * SECOND + u64::from(pid), "/a", &descriptors);
        }
        world.table.gone(gone);
        assert_eq!(descriptors.used(), 2, "those of the images that run, in round {round}");
        let ended = world.ended();
        without_late += ended.iter().filter(|finished| finished.image.late_objects.is_none()).count();
    }
    world.table.gone(executes);
    world.table.gone(another);
    assert_eq!(descriptors.used(), 0);
    assert_eq!(
        without_late, 19,
        "only images that executed another program have not told their late objects"
    );
}
