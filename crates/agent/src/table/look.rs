//! Looks at processes in `/proc`: at once when they begin, and later for what the guest did not tell.

use std::rc::Rc;

use record::bytes::Bytes;
use record::entry::{JobFrom, source};
use record::guest::Object;
use record::rules::{Redactor, Rules};
use record::wire::is_identifying;

use super::draft::{About, Context, Exe, Objects};
use super::{LOOK_WITH_GUEST_NS, LOOK_WITHOUT_GUEST_NS, Look, Process, Table};
use crate::files::ListKey;
use crate::job::{self, Job};
use crate::{clock, container, session};

/// Arguments are kept up to this many bytes in all, as the guest keeps them.
const ARGV_MAX: usize = 16 * 1024;

impl Table {
    /// Takes in a process that began before us.
    pub(super) fn adopt_from_proc(&mut self, pid: u32) {
        let Some(stat) = self.around.proc.stat(pid) else { return };
        if stat.is_kernel_thread || stat.is_zombie {
            return;
        }
        let mut process = Process::blank(self.around.clock.from_ticks(stat.start_ticks), &self.around.clock);
        process.ppid = Some(stat.ppid);
        process.threads = stat.threads.max(1);
        process.exec = 1;
        process.image.about.borrow_mut().earlier = true;
        self.live.insert(pid, process);
        self.look_at_start(pid);
        self.look_at_details(pid);
        self.look_at_objects(pid);
        // Its ancestors may be unknown yet; the step daemon among them tells the job.
        if let Some(job) = self.job_of_ancestors(stat.ppid) {
            self.tell_job(pid, job);
        }
    }

    pub(super) fn job_of_ancestors(&self, mut pid: u32) -> Option<Job> {
        for _ in 0..64 {
            if let Some(job) = self.live.get(&pid).and_then(|process| process.context.job.clone()) {
                return Some(job);
            }
            if let Some(job) = self.stepd_job(pid) {
                return Some(job);
            }
            pid = self.around.proc.stat(pid)?.ppid;
            if pid <= 1 {
                return None;
            }
        }
        None
    }

    pub(super) fn tell_job(&mut self, pid: u32, job: Job) {
        if let Some(process) = self.live.get_mut(&pid)
            && process.context.job.is_none()
        {
            self.accounts.note_job(&job);
            process.context = Rc::new(Context { job: Some(job), ..(*process.context).clone() });
            self.jobs_are_told = true;
        }
    }

    /// What must be read at once, because a short program is gone in a moment.
    pub(super) fn look_at_start(&mut self, pid: u32) {
        let exe = self.around.proc.exe(pid);
        let Some(process) = self.live.get_mut(&pid) else { return };
        if let Some(exe) = exe {
            process.image.source |= source::PROC;
            let exe = Exe::from(exe);
            exe.note(pid, &self.around);
            let mut about = process.image.about.borrow_mut();
            about.exe = Some(exe);
            about.looked_at = clock::monotonic_ns();
        }
        if process.uid.is_none() {
            process.uid = self.around.proc.status(pid).and_then(|status| status.uid).map(|(real, _)| real);
        }
        let is_stepd = process.image.about.borrow().exe.as_ref().is_some_and(|exe| is_stepd(&exe.path));
        process.is_stepd = is_stepd && process.uid == Some(0);
        let (uid, image_start) = (process.uid, process.image.start);
        // Nobody but root leaves a step's group. The step daemon is for a moment in the job's only.
        let is_in_step = |job: &Job| {
            // One that is called by Slurm's own number has no name yet.
            let is_named = !job::is_sluid(job.id.as_bytes());
            job.from == JobFrom::Cgroup && job.step.is_some() && is_named
        };
        let is_in_group = process.context.job.as_ref().is_some_and(is_in_step);
        let is_settled = is_in_group && uid != Some(0);
        if !is_settled {
            self.look_at_job(pid);
        }
        let expects_guest = self.live.get(&pid).is_some_and(|process| process.context.has_guest);
        if !expects_guest {
            self.look_at_details(pid);
        }
        self.look_later.push(Look {
            due: clock::monotonic_ns() + LOOK_WITHOUT_GUEST_NS[0],
            pid,
            image_start,
            step: 0,
        });
        if let Some(uid) = uid {
            self.note_user(uid);
        }
    }

    pub(super) fn look_at_job(&mut self, pid: u32) {
        let lines = self.around.proc.cgroup(pid);
        let is_stepd = self.live.get(&pid).is_some_and(|process| process.is_stepd);
        let told = lines.as_deref().and_then(job::group).map(|group| self.job_in(pid, group));
        if let Some(job) = told.or_else(|| is_stepd.then(|| self.stepd_job(pid))?) {
            self.jobs_are_told = true;
            let Some(process) = self.live.get_mut(&pid) else { return };
            if process.context.job.as_ref() != Some(&job) {
                self.accounts.note_job(&job);
                process.context = Rc::new(Context { job: Some(job), ..(*process.context).clone() });
            }
            return;
        }
        let Some(process) = self.live.get_mut(&pid) else { return };
        let (proc, host) = (&self.around.proc, &self.around.host);
        let own = lines.and_then(|lines| session::from_cgroup(&lines, host));
        // Nobody leaves the session of a terminal but by beginning one, of which the kernel tells.
        let name = own.or_else(|| match &process.context.session {
            None => session::of_terminal(proc, pid, host),
            Some(_) => None,
        });
        if let Some(name) = name.filter(|name| Some(&**name) != process.context.session.as_deref()) {
            process.context = Rc::new(Context { session: Some(name.into()), ..(*process.context).clone() });
        }
    }

    /// A step daemon that belongs to root says in its title which step it serves.
    pub(super) fn stepd_job(&self, pid: u32) -> Option<Job> {
        let is_roots = || self.around.proc.status(pid)?.uid.map(|(real, _)| real == 0);
        if !is_stepd(&self.around.proc.exe(pid)?.path) || is_roots() != Some(true) {
            return None;
        }
        job::from_stepd_title(self.around.proc.argv(pid)?.0.first()?)
    }

    /// Arguments, directory and environment, of a process of which no guest speaks.
    pub(super) fn look_at_details(&mut self, pid: u32) {
        let proc = &self.around.proc;
        let (argv, environ, cwd) = (proc.argv(pid), proc.environ(pid), proc.cwd(pid));
        let Some(process) = self.live.get_mut(&pid) else { return };
        let Some(rules) = Rules::new(&self.around.rules) else { return };
        let mut about = process.image.about.borrow_mut();
        if about.from_guest {
            return;
        }
        about.looked_at = clock::monotonic_ns();
        if let Some(environ) = environ {
            about.take_environment(&environ, rules);
        }
        if about.preloaded == Some(true) {
            // A filter is why a guest that should speak does not.
            about.seccomp = proc.status(pid).and_then(|status| status.seccomp).or(about.seccomp);
        }
        if about.off {
            return;
        }
        if let Some((argv, cut)) = argv {
            about.take_arguments(&argv, cut, rules);
        }
        about.cwd = cwd.map(Bytes).or(about.cwd.take());
        let variables = about.variables();
        about.container = container::from_variables(variables).or(about.container.take());
        process.image.source |= source::PROC;
    }

    /// The objects a process has mapped. With a guest's list, only those that came later.
    pub(super) fn look_at_objects(&mut self, pid: u32) {
        let proc = &self.around.proc;
        let (Some(mapped), namespace) = (proc.mapped_objects(pid), proc.mount_namespace(pid)) else { return };
        let Some(process) = self.live.get_mut(&pid) else { return };
        let is_inside = namespace != self.own_namespace;
        let mut about = process.image.about.borrow_mut();
        if about.off {
            return;
        }
        about.looked_at = clock::monotonic_ns();
        about.enter(namespace.as_deref().filter(|_| is_inside), pid, &self.around);
        let mapped = mapped.into_iter().filter(|path| !is_guest_library(path)).map(Bytes);
        if let Objects::Told { list, .. } = &about.objects {
            let late: Vec<Bytes> =
                mapped.filter(|path| !list.iter().any(|object| same_file(&object.path, path))).collect();
            about.set_late(late.into_iter(), pid, &self.around.files);
            return;
        }
        let list: Vec<Object> = mapped.map(|path| Object { path, ..Object::default() }).collect();
        let key = ListKey::new(&list, namespace.as_deref().filter(|_| is_inside));
        let _ = self.around.files.resolve(key, &list, is_inside.then_some(pid));
        about.objects = Objects::Mapped { list, key };
        process.image.source |= source::PROC;
    }

    pub(super) fn look_at_due(&mut self, now: u64) {
        while self.look_later.peek().is_some_and(|look| look.due <= now) {
            let Some(look) = self.look_later.pop() else { return };
            let is_same = |process: &Process| process.image.start == look.image_start;
            let Some(process) = self.live.get(&look.pid).filter(|process| is_same(process)) else { continue };
            let has_guest = process.image.about.borrow().from_guest;
            if has_guest {
                if look.step > 0 {
                    self.look_at_objects(look.pid);
                }
            } else {
                self.look_at_job(look.pid);
                self.look_at_details(look.pid);
                self.look_at_objects(look.pid);
            }
            let times: &[u64] = if has_guest { &LOOK_WITH_GUEST_NS } else { &LOOK_WITHOUT_GUEST_NS[1..] };
            if let Some(after) = times.get(look.step) {
                self.look_later.push(Look { due: look.image_start + after, step: look.step + 1, ..look });
            }
        }
    }
}

impl From<sample::process::Exe> for Exe {
    fn from(exe: sample::process::Exe) -> Self {
        let mut link = exe.path.clone();
        if exe.deleted {
            link.extend(b" (deleted)");
        }
        Exe { path: Bytes(exe.path), link: Bytes(link), deleted: exe.deleted, stat: exe.stat }
    }
}

impl About {
    /// Keeps of an environment what the rules allow.
    fn take_environment(&mut self, environ: &[Vec<u8>], rules: Rules) {
        let redactor = Redactor::new(rules, b"");
        let (mut ids, mut env) = (Vec::new(), Vec::new());
        self.preloaded = Some(false);
        for variable in environ {
            let Some(at) = variable.iter().position(|b| *b == b'=') else { continue };
            let (name, value) = (&variable[..at], &variable[at + 1..]);
            match name {
                b"LD_PRELOAD" => self.preloaded = Some(value.windows(11).any(|part| part == b"libjobglass")),
                b"JOBGLASS" => self.off = matches!(value, b"off" | b"0" | b"no" | b"false"),
                _ => {}
            }
            let mut kept = variable[..=at].to_vec();
            redactor.variable(name, value, &mut kept);
            if is_identifying(name) {
                ids.push(Bytes(kept));
            } else if rules.keeps_variable(name) {
                env.push(Bytes(kept));
            }
        }
        self.ids = ids;
        self.env = (!self.off).then_some(env);
    }

    fn take_arguments(&mut self, argv: &[Vec<u8>], cut: bool, rules: Rules) {
        let program = argv.first().map_or(&[][..], |program| program);
        let mut redactor = Redactor::new(rules, program);
        let (mut kept, mut bytes) = (Vec::new(), 0);
        for arg in argv {
            bytes += arg.len() + 1;
            if bytes > ARGV_MAX {
                break;
            }
            let mut out = Vec::with_capacity(arg.len());
            redactor.arg(arg, &mut out);
            kept.push(Bytes(out));
        }
        self.argv_cut = cut || kept.len() < argv.len();
        self.argv = Some(kept);
    }
}

/// Debian calls it `slurmstepd-wlm`.
fn is_stepd(path: &[u8]) -> bool {
    path.rsplit(|b| *b == b'/').next().is_some_and(|name| name.starts_with(b"slurmstepd"))
}

pub(super) fn is_guest_library(path: &[u8]) -> bool {
    path.ends_with(b"/libjobglass.so")
}

/// The loader names a library as it was found, `/proc` by its real path: compare the file's own name.
fn same_file(told: &[u8], mapped: &[u8]) -> bool {
    let name = |path: &[u8]| path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    told == mapped || told[name(told)..] == mapped[name(mapped)..]
}
