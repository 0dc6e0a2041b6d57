//! What runs, for an agent that starts again: images that would otherwise lose what their guests said.

use std::cell::RefCell;
use std::rc::Rc;

use record::entry::{EndedBy, Image, ObjectList};

use super::draft::{About, Exe, Objects, Owner};
use super::usage::Base;
use super::{Draft, Finished, LOOK_WITH_GUEST_NS, Look, Process, Table};
use crate::clock::monotonic_ns;
use crate::files::{ListKey, Seen};

/// A process's start is known to a clock tick, and an offset of the clock to what a look at it takes.
const START_TOLERANCE_NS: u64 = 1_000_000_000;

impl Table {
    /// The images that run and could not be found again in `/proc` as well as they are known, or under the name by which they were
    /// reported.
    pub fn snapshot(&self) -> Vec<Finished> {
        let mut running = Vec::new();
        let around = self.uncounted();
        for (pid, process) in &self.live {
            let is_reported = process.image.report.is_told;
            if process.exec == 0 || is_reported || process.image.about.borrow().from_guest {
                let mut draft = Draft::new(*pid, process, &process.image);
                running.extend(draft.finish(&around, self.jobs_are_told, self.cluster.as_deref()));
            }
        }
        running
    }

    /// Takes in what an earlier agent knew, by a clock with this offset. What does not run any more has ended unseen, and is
    /// finished.
    pub fn restore(&mut self, known: Vec<(Image, Option<ObjectList>)>, offset: i64) -> Vec<Finished> {
        let mut ended = Vec::new();
        for (image, objects) in known {
            if self.still_runs(&image) {
                self.adopt(image, objects, offset);
            } else {
                // What it refers to besides its objects is not known any more.
                let image = Image {
                    end: None,
                    ended_by: EndedBy::Unknown,
                    exe_file: None,
                    late_objects: None,
                    objects: image.objects.filter(|_| objects.is_some()),
                    ..image
                };
                ended.push(Finished::new(image, objects.map(Into::into).into_iter().collect(), &self.around));
            }
        }
        ended
    }

    fn still_runs(&self, image: &Image) -> bool {
        let clock = &self.around.clock;
        self.around.proc.stat(image.key.pid).is_some_and(|stat| {
            !stat.is_zombie && clock.is_key_of(image.key.process_start, stat.start_ticks, START_TOLERANCE_NS)
        })
    }

    fn adopt(&mut self, image: Image, objects: Option<ObjectList>, offset: i64) {
        let pid = image.key.pid;
        let Some(stat) = self.around.proc.stat(pid) else { return };
        let clock = &self.around.clock;
        let mut process = Process::blank(clock.from_ticks(stat.start_ticks), clock);
        process.ppid = image.ppid;
        if let Some(uid) = image.uid {
            process.credentials.learn(uid, uid);
        }
        process.held = self.hold_process(image.uid);
        process.threads = stat.threads.max(1);
        process.exec = image.key.exec;
        process.key_start = image.key.process_start;
        process.image.start = clock.monotonic(image.start, offset);
        process.image.source = image.source;
        process.image.forked_from = image.forked_from;
        process.image.report.is_told = image.reported;
        // Behind an earlier image of the same process, the beginning's accounting is not known any more.
        process.image.base = (image.key.exec <= 1).then(Base::default);
        process.image.about = Rc::new(RefCell::new(about(image, objects, &self.around.proc)));
        let image_start = process.image.start;
        self.live.insert(pid, process);
        self.look_later.push(Look { due: monotonic_ns() + LOOK_WITH_GUEST_NS[0], pid, image_start, step: 1 });
        self.complete_space(pid);
        if let Some(process) = self.live.get(&pid) {
            let owner = Owner { pid, user: self.around.user_of(&process.credentials) };
            process.image.about.borrow_mut().find_again(owner, &self.around.files);
        }
        self.look_at_job(pid);
        if let Some(job) = self.job_of_ancestors(stat.ppid) {
            self.tell_job(pid, job);
        }
    }
}

fn about(image: Image, objects: Option<ObjectList>, proc: &sample::Proc) -> About {
    let exe = image.exe.map(|path| Exe {
        link: path.clone(),
        path,
        deleted: image.exe_deleted,
        stat: proc.exe(image.key.pid).and_then(|exe| exe.stat),
        inode: None,
    });
    let ids = [("LOADEDMODULES", &image.modules), ("_LMFILES_", &image.module_files)].map(|(name, list)| {
        let list: Vec<&[u8]> = list.iter().flatten().map(|item| &item[..]).collect();
        [name.as_bytes(), b"=", &list.join(&b':')].concat().into()
    });
    let mut ids: Vec<record::bytes::Bytes> = ids.into();
    let place = &image.place;
    for (name, value) in [
        ("SLURM_JOB_ID", place.claimed_job.clone().or(place.job.clone())),
        ("SLURM_STEP_ID", place.step.clone()),
        ("SLURMD_NODENAME", place.node.clone()),
        ("SLURM_CLUSTER_NAME", place.cluster.clone()),
        ("PMI_RANK", place.rank.map(|rank| rank.to_string())),
    ] {
        ids.extend(value.map(|value| format!("{name}={value}").into_bytes().into()));
    }
    let objects = match objects {
        Some(list) => {
            let list: Vec<Seen> = list.objects.into_iter().map(plain).collect();
            Objects::Told { key: ListKey::new(&list, None), list, cut: image.objects_cut }
        }
        None => Objects::Unknown,
    };
    About {
        exe,
        argv: image.argv,
        argv_cut: image.argv_cut,
        cwd: image.cwd,
        ids,
        env: image.env,
        objects,
        container: image.container,
        from_guest: image.without_guest.is_none(),
        earlier: true,
        ..About::default()
    }
}

/// Without its file, which an earlier agent has looked at.
fn plain(object: record::entry::Object) -> Seen {
    let record::entry::Object { path, build_id, signature, claimed, .. } = object;
    Seen { path, build_id, signature, claimed, ..Seen::default() }
}
