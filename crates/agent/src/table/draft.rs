//! An image that has ended, on its way to a record.

use std::cell::RefCell;
use std::fs::File as OsFile;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use record::bytes::Bytes;
use record::entry::{Container, EndedBy, Image, ImageKey, ObjectList, Used, WithoutGuest};
use record::guest::{Object, Start, decode_late};
use record::rules::{Redactor, Rules};
use record::wire::late;
use sample::process::FileStat;

use super::look::is_guest_library;
use super::usage::{self, Base, Sum};
use super::{Live, Process, Surroundings};
use crate::container;
use crate::files::{self, Files, ListKey, Place};
use crate::job::{self, Job, Variables};

/// What a process hands on to its children.
#[derive(Debug, Clone, Default)]
pub struct Context {
    pub job: Option<Job>,
    /// The login session or service, outside of jobs.
    pub session: Option<Rc<str>>,
    /// A guest has spoken in this process or one before it.
    pub has_guest: bool,
}

/// An executable.
#[derive(Debug, Clone)]
pub struct Exe {
    pub path: Bytes,
    /// The path as the link has it, with its mark if the file is deleted.
    pub link: Bytes,
    pub deleted: bool,
    pub stat: Option<FileStat>,
}

impl Exe {
    /// Makes the file known. The link leads to the very file while the process lives, also where its path
    /// does not; afterwards the path has to do.
    pub fn note(&self, pid: u32, around: &Surroundings) -> Option<u64> {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&self.path));
        let places = vec![Place::Host(around.proc.path(pid, "exe")), Place::Host(path)];
        Some(around.files.note(&self.path, places, &self.stat?))
    }
}

/// The objects of an image.
#[derive(Debug, Clone, Default)]
pub enum Objects {
    #[default]
    Unknown,
    /// The guest's list.
    Told { list: Vec<Object>, key: ListKey, cut: u64 },
    /// What `/proc` shows.
    Mapped { list: Vec<Object>, key: ListKey },
}

/// What is known about a program image; forked copies share it.
#[derive(Debug, Default)]
pub struct About {
    pub exe: Option<Exe>,
    pub argv: Option<Vec<Bytes>>,
    pub argv_cut: bool,
    pub cwd: Option<Bytes>,
    /// Variables that identify job, modules and container.
    pub ids: Vec<Bytes>,
    pub env: Option<Vec<Bytes>>,
    pub objects: Objects,
    /// Objects loaded after the start.
    pub late: Option<(Vec<Object>, ListKey)>,
    pub late_cut: u64,
    pub container: Option<Container>,
    /// The mount namespace, if it is not ours.
    pub namespace: Option<Vec<u8>>,
    pub seccomp: Option<u32>,
    pub preloaded: Option<bool>,
    pub off: bool,
    pub suppressed: bool,
    pub from_guest: bool,
    pub earlier: bool,
    /// When `/proc` was read last, monotonic.
    pub looked_at: u64,
}

impl About {
    pub fn variables(&self) -> Variables<'_, Bytes> {
        Variables(&self.ids)
    }

    /// Forgets what was read in `/proc` if the next image had begun by then: it may be the next one's.
    pub fn distrust_after(&mut self, next_image: u64) {
        if !self.from_guest && self.looked_at >= next_image {
            *self = About { earlier: self.earlier, suppressed: self.suppressed, ..About::default() };
        }
    }

    /// Takes over what the guest says at its end, in the memory it shares with us.
    pub fn hear_late(&mut self, memory: Option<OwnedFd>, pid: u32, files: &Files) {
        let Some(memory) = memory else { return };
        let mut bytes = vec![0; late::BYTES];
        // The size is whatever the process made of it.
        let Ok(n) = OsFile::from(memory).read_at(&mut bytes, 0) else { return };
        if let Some(Ok(late)) = bytes.get(..n).and_then(decode_late) {
            self.late_cut = u64::from(late.cut) + u64::from(late.unloaded);
            self.set_late(late.paths.into_iter(), pid, files);
        }
    }

    pub fn set_late(&mut self, paths: impl Iterator<Item = Bytes>, pid: u32, files: &Files) {
        let objects =
            paths.filter(|path| !is_guest_library(path)).map(|path| Object { path, ..Object::default() });
        let list: Vec<Object> = objects.collect();
        let key = ListKey::new(&list, self.namespace.as_deref());
        let inside = self.namespace.is_some().then_some(pid);
        self.late = (!list.is_empty()).then(|| {
            let _ = files.resolve(key, &list, inside);
            (list, key)
        });
    }

    /// Keeps of a guest's arguments and environment what the site's rules allow: a guest in a container does
    /// not see them, and goes by the default ones.
    fn take_words(&mut self, argv: Vec<Bytes>, env: Vec<Bytes>, around: &Surroundings) {
        let Some(rules) = Rules::new(&around.rules) else { return };
        let name = |variable: &Bytes| variable.iter().position(|b| *b == b'=').unwrap_or(variable.len());
        let program = argv.first().cloned().unwrap_or_default();
        let mut redactor = Redactor::new(rules, &program);
        let mut redact = |arg: &Bytes| {
            let mut out = Vec::with_capacity(arg.len());
            redactor.arg(arg, &mut out);
            Bytes(out)
        };
        self.argv = Some(argv.iter().map(&mut redact).collect());
        let keep = |variable: &Bytes| {
            let (name, value) = variable.split_at_checked(name(variable))?;
            let mut out = [name, b"="].concat();
            let value = value.strip_prefix(b"=").unwrap_or(value);
            Redactor::new(rules, b"").variable(name, value, &mut out);
            rules.keeps_variable(name).then_some(Bytes(out))
        };
        self.env = Some(env.iter().filter_map(keep).collect());
    }

    /// Remembers in which mount namespace the process is, if not in ours, and has it looked at.
    pub fn enter(&mut self, namespace: Option<&[u8]>, pid: u32, around: &Surroundings) {
        if let Some(namespace) = namespace {
            around.files.enter(namespace, pid);
            self.namespace = Some(namespace.to_vec());
        }
    }

    /// Takes over what the guest says.
    pub fn hear(&mut self, start: Start, pid: u32, around: &Surroundings, own_namespace: Option<&[u8]>) {
        let known = self.exe.take().filter(|known| known.link == start.exe);
        if known.is_none() && !start.exe.is_empty() {
            // Gone before we looked, or another image's: the inode in its accounting may tell more.
            let path = Bytes::from(start.exe.strip_suffix(b" (deleted)").unwrap_or(&start.exe));
            let deleted = path.len() < start.exe.len();
            self.exe = Some(Exe { path, link: start.exe, deleted, stat: None });
        } else {
            self.exe = known;
        }
        self.take_words(start.argv, start.env, around);
        self.argv_cut = start.argv_cut;
        self.cwd = start.cwd.or(self.cwd.take());
        self.ids = start.ids;
        self.from_guest = true;
        self.container = container::from_variables(Variables(&self.ids));
        let namespace = around.proc.mount_namespace(pid);
        let inside = namespace.as_deref().filter(|namespace| Some(*namespace) != own_namespace);
        self.enter(inside, pid, around);
        let key = ListKey::new(&start.objects, inside);
        let _ = around.files.resolve(key, &start.objects, inside.map(|_| pid));
        self.objects = Objects::Told { list: start.objects, key, cut: start.objects_cut };
    }
}

/// A finished image with the lists it refers to.
#[derive(Debug, Clone)]
pub struct Finished {
    pub image: Image,
    pub lists: Vec<Arc<ObjectList>>,
}

/// An image that has ended.
pub struct Draft {
    pub key: ImageKey,
    pub start: u64,
    pub end: Option<u64>,
    pub ended_by: EndedBy,
    pub status: Option<u32>,
    /// When it began to wait.
    pub ended_at: u64,
    pub ppid: Option<u32>,
    pub uid: Option<u32>,
    pub context: Rc<Context>,
    pub about: Rc<RefCell<About>>,
    pub sum: Rc<RefCell<Sum>>,
    pub earlier: Vec<Rc<RefCell<Sum>>>,
    pub base: Option<Base>,
    /// What the process had used when the next image began.
    pub end_usage: Option<Base>,
    /// The next image's guest has spoken.
    pub heard_next: bool,
    pub peak_kib: Option<u64>,
    pub source: u8,
    pub forked_from: Option<ImageKey>,
}

impl Draft {
    pub(super) fn new(pid: u32, process: &Process, image: &Live) -> Draft {
        Draft {
            key: process.key(pid),
            start: image.start,
            end: None,
            ended_by: EndedBy::Unknown,
            status: None,
            ended_at: 0,
            ppid: process.ppid,
            uid: process.uid,
            context: process.context.clone(),
            about: image.about.clone(),
            sum: image.sum.clone(),
            earlier: process.earlier.clone(),
            base: image.base.or((image.forked_from.is_some() && process.exec == 0).then(Base::default)),
            end_usage: None,
            heard_next: false,
            peak_kib: None,
            source: image.source,
            forked_from: image.forked_from,
        }
    }

    pub fn end(&mut self, time: u64, by: EndedBy, status: Option<u32>) {
        self.end = Some(time);
        self.ended_at = time;
        self.ended_by = by;
        self.status = status;
    }

    /// Whether a guest should have spoken that was not heard: one has in a process before this one.
    pub fn expects_guest(&self) -> bool {
        let about = self.about.borrow();
        let is_copy = self.forked_from.is_some() && self.key.exec == 0;
        self.context.has_guest && !about.from_guest && !about.off && !about.suppressed && !is_copy
    }

    /// Whether nothing more can be expected.
    pub fn is_complete(&self, files: &Files) -> bool {
        let about = self.about.borrow();
        let is_heard = about.from_guest || self.forked_from.is_some() && self.key.exec == 0;
        let is_charged = self.ended_by != EndedBy::Exec || self.heard_next;
        is_heard && is_charged && self.is_resolved(files)
    }

    /// Whether all objects that it is known to have loaded were looked at.
    pub fn is_resolved(&self, files: &Files) -> bool {
        let about = self.about.borrow();
        let is_resolved = match &about.objects {
            Objects::Unknown => true,
            Objects::Told { key, .. } | Objects::Mapped { key, .. } => files.resolved(*key).is_some(),
        };
        is_resolved && about.late.as_ref().is_none_or(|(_, key)| files.resolved(*key).is_some())
    }

    /// Makes the record; `None` if a rule says that there is none.
    pub fn finish(
        &mut self,
        around: &Surroundings,
        jobs_are_told: bool,
        cluster: Option<&str>,
    ) -> Option<Finished> {
        self.find_exe_by_inode(&around.files);
        let about = self.about.borrow();
        let exe_path = about.exe.as_ref().map(|exe| exe.path.clone());
        if about.suppressed || self.is_skipped(around, exe_path.as_ref()) {
            around.counters.suppressed_by_rule.one();
            return None;
        }
        let exe_file = about.exe.as_ref().and_then(|exe| exe.note(self.key.pid, around));
        let (objects, objects_cut) = resolved(&about.objects, &around.files);
        let late = about
            .late
            .as_ref()
            .map(|(list, key)| around.files.resolved(*key).unwrap_or_else(|| files::unresolved(list)));
        let variables = about.variables();
        let mut place =
            job::place(self.context.job.as_ref(), variables, around.cluster.as_deref(), !jobs_are_told);
        if place.job.is_some() && place.cluster.is_none() {
            place.cluster = cluster.map(str::to_owned);
        }
        place.session = self.context.session.as_deref().filter(|_| place.job.is_none()).map(str::to_owned);
        place.node.get_or_insert_with(|| around.host.clone());
        let without_guest = self.without_guest(&about, around, exe_file);
        let image = Image {
            key: self.key,
            start: around.clock.wall(self.start),
            end: self.end.map(|end| around.clock.wall(end)),
            ended_by: self.ended_by,
            exit_code: self.exit_code(),
            signal: self.signal(),
            ppid: self.ppid,
            uid: self.uid,
            user: None,
            host: around.host.clone(),
            place,
            exe: exe_path,
            exe_file,
            exe_deleted: about.exe.as_ref().is_some_and(|exe| exe.deleted),
            argv: about.argv.clone(),
            argv_cut: about.argv_cut,
            cwd: about.cwd.clone(),
            modules: module_list(&about, "LOADEDMODULES"),
            module_files: module_list(&about, "_LMFILES_"),
            env: about.env.clone(),
            container: about.container.clone().or_else(|| {
                about.namespace.as_deref().and_then(|namespace| around.files.container(namespace))
            }),
            objects: objects.as_ref().map(|list| list.id),
            late_objects: late.as_ref().map(|list| list.id),
            objects_cut: objects_cut + about.late_cut,
            used: self.used(),
            count: 1,
            source: self.source,
            forked_from: self.forked_from.filter(|_| self.key.exec == 0),
            without_guest,
            ranks: Vec::new(),
        };
        Some(Finished { image, lists: objects.into_iter().chain(late).collect() })
    }

    /// The name of the cluster, if this is a process of a job and says it.
    pub fn cluster(&self) -> Option<String> {
        self.context.job.as_ref()?;
        self.about.borrow().variables().text("SLURM_CLUSTER_NAME")
    }

    fn is_skipped(&self, around: &Surroundings, exe: Option<&Bytes>) -> bool {
        let Some(rules) = Rules::new(&around.rules) else { return false };
        exe.is_some_and(|exe| rules.skips_exe(exe))
            || self.uid.is_some_and(|uid| rules.skips_uid(uid.to_string().as_bytes()))
    }

    /// A program that was gone before it could be looked at has left its inode in the accounting.
    fn find_exe_by_inode(&self, files: &Files) {
        let mut about = self.about.borrow_mut();
        if about.exe.as_ref().is_some_and(|exe| exe.stat.is_some()) {
            return;
        }
        let inode = self.sum.borrow().exe.filter(|_| self.ended_by != EndedBy::Exec);
        if let Some(file) = inode.and_then(|(dev, inode)| files.by_inode(dev, inode)) {
            let stat = FileStat {
                dev: file.dev,
                inode: file.inode,
                size: file.size,
                mtime_ns: file.mtime,
                links: 1,
                uid: file.uid,
                mode: file.mode,
            };
            let told = about.exe.take().map(|exe| exe.path);
            let path = told.unwrap_or(file.path);
            about.exe = Some(Exe { link: path.clone(), path, deleted: false, stat: Some(stat) });
        }
    }

    fn used(&self) -> Used {
        let peak = self.peak_kib.unwrap_or(0).max(self.sum.borrow().peak_kib);
        if self.ended_by == EndedBy::Exec {
            return usage::until_exec(self.base, self.end_usage, peak);
        }
        let mut total = *self.sum.borrow();
        self.earlier.iter().for_each(|sum| total.join(&sum.borrow()));
        usage::at_exit(&total, peak, self.base)
    }

    fn exit_code(&self) -> Option<u32> {
        self.status.filter(|_| self.ended_by == EndedBy::Exit).map(|status| status >> 8 & 0xff)
    }

    fn signal(&self) -> Option<u32> {
        self.status.filter(|_| self.ended_by == EndedBy::Signal).map(|status| status & 0x7f)
    }

    /// Why the guest said nothing.
    fn without_guest(&self, about: &About, around: &Surroundings, file: Option<u64>) -> Option<WithoutGuest> {
        if about.from_guest && self.key.exec > 0 {
            return None;
        }
        let file = file.and_then(|id| around.files.get(id));
        let is_static = file.as_ref().and_then(|file| file.dynamic) == Some(false);
        let is_privileged = file.as_ref().and_then(|file| file.mode).is_some_and(|mode| mode & 0o6000 != 0);
        if self.key.exec > 0 && is_static {
            around.counters.static_programs.one();
        }
        if self.key.exec > 0 && about.exe.is_none() {
            around.counters.programs_without_path.one();
        }
        let reason = match about.preloaded {
            _ if self.key.exec == 0 => WithoutGuest::Forked,
            _ if about.off => WithoutGuest::Off,
            _ if is_static => WithoutGuest::Static,
            Some(false) => WithoutGuest::NotLoaded,
            _ if is_privileged => WithoutGuest::Privileged,
            _ if about.seccomp.is_some_and(|mode| mode != 0) => WithoutGuest::Seccomp,
            _ if about.earlier => WithoutGuest::Earlier,
            Some(true) => WithoutGuest::Lost,
            None if self.context.has_guest && file.is_some() => WithoutGuest::Lost,
            None => WithoutGuest::Unknown,
        };
        match reason {
            WithoutGuest::Lost => around.counters.guest_lost.one(),
            WithoutGuest::Off => around.counters.guest_off.one(),
            WithoutGuest::NotLoaded => around.counters.guest_not_loaded.one(),
            WithoutGuest::Seccomp => around.counters.guest_seccomp.one(),
            WithoutGuest::Privileged => around.counters.guest_privileged.one(),
            WithoutGuest::Unknown => around.counters.guest_unknown.one(),
            // Static programs have a counter above; a copy's parent spoke, or was counted; a rule is counted
            // where it is applied; what ran before us is no loss.
            WithoutGuest::Static | WithoutGuest::Forked | WithoutGuest::Earlier => {}
        }
        Some(reason)
    }
}

fn resolved(objects: &Objects, files: &Files) -> (Option<Arc<ObjectList>>, u64) {
    let (list, key, cut) = match objects {
        Objects::Unknown => return (None, 0),
        Objects::Told { list, key, cut } => (list, key, *cut),
        Objects::Mapped { list, key } => (list, key, 0),
    };
    (Some(files.resolved(*key).unwrap_or_else(|| files::unresolved(list))), cut)
}

/// A list such as `LOADEDMODULES`; unknown if the environment is, empty if no module is loaded.
fn module_list(about: &About, name: &str) -> Option<Vec<Bytes>> {
    about.env.as_ref()?;
    let list = about.variables().get(name).unwrap_or(&[]);
    Some(list.split(|b| *b == b':').filter(|item| !item.is_empty()).map(Bytes::from).collect())
}
