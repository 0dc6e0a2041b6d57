//! Looks at processes in `/proc`: at once when they begin, and later for what the guest did not tell.

use std::rc::Rc;

use record::bytes::Bytes;
use record::entry::{JobFrom, source};
use record::rules::{Redactor, Rules};
use record::wire::is_identifying;
use sample::Proc;
use sample::process::RootId;

use super::draft::{About, Context, Entered, Exe, Owner};
use super::{LOOK_WITH_GUEST_NS, LOOK_WITHOUT_GUEST_NS, Look, NOBODY, Process, Table};
use crate::files::Namespace;
use crate::job::{self, Job};
use crate::{clock, container, session};

/// Arguments are kept up to this many bytes in all, as the guest keeps them.
const ARGV_MAX: usize = 16 * 1024;
const ARGUMENTS_MAX: usize = 4096;
/// And kept variables.
const ENVIRONMENT_MAX: usize = 32 * 1024;
/// So many looks that are due later may be kept beside two for each process.
const LOOKS_SPARE: usize = 4096;

impl Table {
    /// Takes in a process that began before us.
    pub(super) fn adopt_from_proc(&mut self, pid: u32) {
        let Some(stat) = self.around.proc.stat(pid) else { return };
        if stat.is_kernel_thread || stat.is_zombie {
            return;
        }
        let uid = self.around.proc.status(pid).and_then(|status| status.uid);
        let Some(held) = self.hold_process(uid.map(|(real, _)| real)) else { return };
        let mut process = Process::blank(self.around.clock.from_ticks(stat.start_ticks), &self.around.clock);
        process.held = Some(held);
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

    /// In which mount namespace a process is, if not in ours; where its mother was if it is gone already.
    fn find_namespace(&mut self, pid: u32) -> Option<Entered> {
        let number = self.around.proc.mount_namespace(pid);
        let is_hosts = number.is_some() && number == self.host_namespace;
        let root = (number.is_some() && number != self.own_namespace && !is_hosts)
            .then(|| self.around.proc.root(pid))
            .flatten();
        let process = self.live.get_mut(&pid)?;
        let known = process.context.namespace;
        let namespace = match number {
            None => known,
            Some(number) if Some(number) == self.own_namespace => None,
            // No other one has its number while the first process lives.
            Some(number) if is_hosts => Some(Namespace { number, since: 0, root: RootId::default() }),
            Some(number) => {
                let same = known.filter(|known| known.number == number);
                let since = same.map_or_else(clock::monotonic_ns, |same| same.since);
                let root = root.as_ref().map(|root| root.id).or(same.map(|same| same.root));
                Some(Namespace { number, since, root: root.unwrap_or_default() })
            }
        };
        if namespace != known {
            process.context = Rc::new(Context { namespace, ..(*process.context).clone() });
        }
        namespace.map(|namespace| Entered { namespace, root })
    }

    /// What must be read at once, because a short program is gone in a moment.
    pub(super) fn look_at_start(&mut self, pid: u32) {
        let entered = self.find_namespace(pid);
        let exe = self.around.proc.exe(pid);
        let Some(process) = self.live.get_mut(&pid) else { return };
        if let Some(exe) = exe {
            process.image.source |= source::PROC;
            let mut about = process.image.about.borrow_mut();
            about.exe = Some(Exe::from(exe));
            about.looked_at = clock::monotonic_ns();
        }
        process.image.about.borrow_mut().settle_exe();
        if process.credentials.real().is_none()
            && let Some((real, effective)) = self.around.proc.status(pid).and_then(|status| status.uid)
        {
            process.credentials.learn(real, effective);
        }
        let uid = process.credentials.real();
        let owner = Owner { pid, user: self.around.user_of(&process.credentials) };
        if let Some(exe) = &process.image.about.borrow().exe {
            exe.note(pid, owner.user, &self.around);
        }
        process.image.about.borrow_mut().enter(entered, owner, &self.around);
        let is_stepd = process.image.about.borrow().exe.as_ref().is_some_and(|exe| is_stepd(&exe.path));
        process.is_stepd = is_stepd && uid == Some(0);
        let image_start = process.image.start;
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
            self.note_user(uid, pid);
        }
        self.meet(pid);
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
        let (read, cwd) =
            (self.peek(pid, move |proc| Some((proc.argv(pid), proc.environ(pid)))), proc.cwd(pid));
        let (argv, environ) = read.unwrap_or_default();
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
        about.hold(self.around.user_of(&process.credentials), &self.around);
        process.image.source |= source::PROC;
    }

    /// Reads what stands in a process's memory, if that can be read.
    pub(super) fn peek<T: Send + 'static>(
        &self,
        pid: u32,
        read: impl FnOnce(&Proc) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let credentials = self.live.get(&pid).map(|process| process.credentials);
        let user = credentials.map_or(NOBODY, |credentials| self.around.user_of(&credentials));
        self.around.peeks.read(user, pid, read)
    }

    /// The objects a process has mapped. With a guest's list, only those that came later.
    pub(super) fn look_at_objects(&mut self, pid: u32) {
        self.complete_space(pid);
        let entered = self.find_namespace(pid);
        let Some(process) = self.live.get_mut(&pid) else { return };
        let owner = Owner { pid, user: self.around.user_of(&process.credentials) };
        let mut about = process.image.about.borrow_mut();
        if about.off || about.space.is_none() {
            return;
        }
        about.looked_at = clock::monotonic_ns();
        about.enter(entered, owner, &self.around);
        about.note_mapped(owner, &self.around.files);
        about.hold(owner.user, &self.around);
        if !about.from_guest {
            process.image.source |= source::PROC;
        }
    }

    /// Asks `/proc` for what is mapped, where the kernel's records do not have all of it.
    pub(super) fn complete_space(&mut self, pid: u32) {
        let Some(process) = self.live.get(&pid) else { return };
        let space = process.image.about.borrow().space.clone();
        if space.as_ref().is_some_and(|space| self.spaces.is_whole(space)) {
            return;
        }
        let Some(mappings) = self.peek(pid, move |proc| proc.mappings(pid)) else { return };
        let now = (clock::monotonic_ns(), process.credentials.real());
        let space = self.spaces.complete(pid, space, now, mappings);
        process.image.about.borrow_mut().space = Some(space);
    }

    pub(super) fn look_at_due(&mut self, now: u64) {
        // Those of processes that are gone stay until they are due, which may be in an hour.
        if self.look_later.len() > 2 * self.live.len() + LOOKS_SPARE {
            let live = &self.live;
            let is_live = |look: &Look| {
                live.get(&look.pid).is_some_and(|process| process.image.start == look.image_start)
            };
            self.look_later.retain(is_live);
        }
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
                self.meet(look.pid);
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
        Exe { path: Bytes(exe.path), link: Bytes(link), deleted: exe.deleted, stat: exe.stat, inode: None }
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
            let redacted = || {
                let mut kept = Vec::with_capacity(variable.len());
                kept.extend_from_slice(&variable[..=at]);
                redactor.variable(name, value, &mut kept);
                Bytes(kept)
            };
            if is_identifying(name) {
                ids.push(redacted());
            } else if rules.keeps_variable(name) {
                env.push(redacted());
            }
        }
        self.ids = ids;
        let mut bytes = 0;
        env.retain(|variable: &Bytes| {
            bytes += variable.len() + size_of::<Bytes>();
            bytes <= ENVIRONMENT_MAX
        });
        self.env = (!self.off).then_some(env);
    }

    fn take_arguments(&mut self, argv: &[Vec<u8>], cut: bool, rules: Rules) {
        let mut bytes = 0;
        let fits = |arg: &&Vec<u8>| {
            bytes += arg.len() + 1;
            bytes <= ARGV_MAX
        };
        let kept = argv.iter().take(ARGUMENTS_MAX).take_while(fits).count();
        self.argv_cut = cut || kept < argv.len();
        let mut redactor = Redactor::new(rules, argv.first().map_or(&[][..], |program| program));
        let redacted = |arg: &Vec<u8>| {
            let mut out = Vec::with_capacity(arg.len());
            redactor.arg(arg, &mut out);
            Bytes(out)
        };
        self.argv = Some(argv.iter().take(kept).map(redacted).collect());
    }
}

/// Debian calls it `slurmstepd-wlm`.
fn is_stepd(path: &[u8]) -> bool {
    path.rsplit(|b| *b == b'/').next().is_some_and(|name| name.starts_with(b"slurmstepd"))
}

pub(super) fn is_guest_library(path: &[u8]) -> bool {
    path.ends_with(b"/libjobglass.so")
}
