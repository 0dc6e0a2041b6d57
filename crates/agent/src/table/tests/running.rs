//! Programs that are reported while they run.

use record::entry::Used;

use super::super::draft::Objects;
use super::*;
use crate::files::ListKey;

const AFTER: u64 = 60 * SECOND;

impl World {
    /// What is reported at this time, at the latest when it is looked for once more.
    fn reported(&mut self, now: u64) -> Vec<Finished> {
        let mut reported = self.table.report(now, AFTER, 100);
        reported.extend(self.table.report(now, AFTER, 100));
        reported
    }

    /// A process has loaded something when it is looked at.
    fn loads(&self, pid: u32, inode: u64) {
        let seen = crate::files::Seen {
            path: format!("/lib/{inode}.so").into_bytes().into(),
            inode: Some(crate::files::Inode { dev: 1, number: inode }),
            ..Default::default()
        };
        let key = ListKey::new(std::slice::from_ref(&seen), None);
        self.table.live[&pid].image.about.borrow_mut().late = Some((vec![seen], key));
    }
}

#[test]
fn a_program_that_has_run_for_a_while_is_reported_once() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10), exec(2, 10), fork(3, 1, 11), exec(4, 11)]);
    world.guest(10, 3, "/a", 0);
    assert!(world.reported(59 * SECOND).is_empty(), "it may end in a moment");
    world.events(&[exit(59 * SECOND, 11, 11, 0)]);
    assert!(!world.ended()[0].image.reported, "a short program costs nothing more");
    let reported = world.reported(61 * SECOND);
    let image = &reported[0].image;
    assert_eq!(
        (reported.len(), image.key.pid, image.exe.as_ref().unwrap().to_string()),
        (1, 10, "/a".into())
    );
    assert!(image.running_at.is_some() && image.argv.is_some());
    assert_eq!((image.end, image.ended_by, image.used), (None, EndedBy::Unknown, Used::default()));
    assert_eq!(image.running().collect::<Vec<_>>(), [image.key]);
    assert!(world.reported(3600 * SECOND).is_empty());
    world.stats(10, 100);
    world.events(&[exit(4000 * SECOND, 10, 10, 0)]);
    let ended = &world.ended()[0].image;
    assert_eq!(ended.ended().collect::<Vec<_>>(), [image.key], "its record takes the place of the report");
    assert_eq!((ended.running_at, ended.used.user_ns), (None, Some(100)));
    // What is counted of an image is counted at its end.
    assert_eq!(world.counted("guest_unknown"), 1);
}

#[test]
fn a_program_is_reported_again_when_it_has_loaded_more() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10), exec(2, 10), fork(3, 10, 12)]);
    world.guest(10, 3, "/a", 0);
    assert_eq!(world.reported(61 * SECOND).len(), 2, "the program and its forked copy");
    world.loads(10, 5);
    let again = world.reported(62 * SECOND);
    assert_eq!(again.iter().map(|again| again.image.key.pid).collect::<Vec<_>>(), [10]);
    assert!(again[0].image.late_objects.is_some());
    assert!(world.reported(63 * SECOND).is_empty());
    world.table.report_again();
    assert_eq!(world.reported(64 * SECOND).len(), 2, "the first reports do not count any more");
}

#[test]
fn many_programs_are_reported_in_turns() {
    let mut world = World::new();
    for pid in 10..20 {
        world.events(&[fork(1, 1, pid), exec(2, pid)]);
    }
    let mut pids: Vec<u32> = Vec::new();
    for turn in 0..20 {
        let reported = world.table.report((61 + turn) * SECOND, AFTER, 2);
        assert!(reported.len() <= 2);
        pids.extend(reported.iter().map(|reported| reported.image.key.pid));
    }
    pids.sort_unstable();
    assert_eq!(pids, (10..20).collect::<Vec<_>>());
}

#[test]
fn the_next_agent_goes_on_under_the_name_of_the_report() {
    let mut world = World::new();
    let ticks = crate::clock::monotonic_ns() / 10_000_000;
    let began = world.table.around.clock.from_ticks(ticks);
    for pid in [10, 11] {
        world.proc_entry(pid, ticks);
        // No guest speaks of them: without the report, they would be found in /proc.
        world.events(&[fork(began, 1, pid), exec(began + 1, pid), exec(began + 2, pid)]);
    }
    world.ended();
    assert!(world.table.snapshot().is_empty());
    let mut keys: Vec<_> =
        world.reported(began + AFTER + SECOND).iter().map(|reported| reported.image.key).collect();
    keys.sort_unstable();
    assert_eq!((keys.len(), keys[0].exec), (2, 2));
    let left: Vec<_> = world.table.snapshot().into_iter().map(Finished::known).collect();
    assert_eq!(left.len(), 2);
    let told_by = world.table.around.clock.offset();
    world.table.forget();
    fs::remove_dir_all(world.proc.path().join("11")).unwrap();
    let over = world.table.restore(left, told_by);
    let (key, by) = (over[0].image.ended().collect::<Vec<_>>(), over[0].image.ended_by);
    assert_eq!((over.len(), key, by), (1, vec![keys[1]], EndedBy::Unknown));
    let again = world.reported(began + 2 * AFTER);
    assert_eq!(again.iter().map(|again| again.image.key).collect::<Vec<_>>(), [keys[0]]);
    world.events(&[exit(began + 3 * AFTER, 10, 10, 0)]);
    assert_eq!(world.ended()[0].image.ended().collect::<Vec<_>>(), [keys[0]]);
}

#[test]
fn a_report_waits_for_its_objects_no_longer_than_until_the_next_look() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10), exec(2, 10)]);
    {
        // Nobody looks at them: a file system may not answer.
        let seen = crate::files::Seen { path: b"/stuck/lib.so".as_slice().into(), ..Default::default() };
        let list = vec![seen];
        let key = ListKey::new(&list, None);
        let mut about = world.table.live[&10].image.about.borrow_mut();
        (about.from_guest, about.objects) = (true, Objects::Told { list, key, cut: 0 });
    }
    assert!(world.table.report(61 * SECOND, AFTER, 9).is_empty());
    assert_eq!(world.table.report(66 * SECOND, AFTER, 9)[0].lists.len(), 1);
}
