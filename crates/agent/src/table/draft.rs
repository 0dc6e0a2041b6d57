//! An image on its way to a record: it has ended, or it runs and is told of.

use std::cell::RefCell;
use std::fs::File as OsFile;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

use record::bytes::Bytes;
use record::entry::{Container, EndedBy, Image, ImageKey, ObjectList, Used, WithoutGuest};
use record::guest::{Object, Start, decode_late, weight_of_list};
use record::rules::Rules;
use record::wire::late;
use sample::process::{FileStat, Root};

use super::spaces::{self, SharedSpace};
use super::usage::{self, Base, Sum};
use super::{Credentials, Live, PROCESS_BYTES, Process, Surroundings};
use crate::container;
use crate::files::{self, Files, Inode, ListKey, Namespace, Place, Seen};
use crate::job::{self, Job, Variables};
use crate::shares::Held;

/// What a path or a note takes beside its bytes.
const PATH_OVERHEAD: usize = 48;

/// What a process hands on to its children.
#[derive(Debug, Clone, Default)]
pub struct Context {
    pub job: Option<Job>,
    /// The login session or service, outside of jobs.
    pub session: Option<Rc<str>>,
    /// A guest has spoken in this process or one before it.
    pub has_guest: bool,
    /// The mount namespace, if it is not ours.
    pub namespace: Option<Namespace>,
}

/// An executable.
#[derive(Debug, Clone, Default)]
pub struct Exe {
    pub path: Bytes,
    /// The path as the link has it, with its mark if the file is deleted.
    pub link: Bytes,
    pub deleted: bool,
    pub stat: Option<FileStat>,
    /// The file that the kernel mapped as the program.
    pub inode: Option<Inode>,
}

impl Exe {
    /// Makes the file known. The link leads to the very file while the process lives, also where its path
    /// does not; afterwards the path has to do.
    pub fn note(&self, pid: u32, user: u32, around: &Surroundings) -> Option<u64> {
        let path = &self.path;
        let places =
            vec![Place::Executable(pid), Place::Host(path.clone()), Place::Inside(pid, path.clone())];
        Some(around.files.note(user, path, places, &self.stat?))
    }
}

/// The objects of an image.
#[derive(Debug, Clone, Default)]
pub enum Objects {
    #[default]
    Unknown,
    /// The guest's list.
    Told { list: Vec<Seen>, key: ListKey, cut: u64 },
    /// What the kernel has mapped, without a word of a guest.
    Mapped { list: Vec<Seen>, key: ListKey },
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
    pub late: Option<(Vec<Seen>, ListKey)>,
    pub late_cut: u64,
    pub container: Option<Container>,
    /// The mount namespace, if it is not ours.
    pub namespace: Option<Namespace>,
    /// The root there is being looked at.
    pub awaits_root: bool,
    pub seccomp: Option<u32>,
    pub preloaded: Option<bool>,
    pub off: bool,
    pub suppressed: bool,
    pub from_guest: bool,
    pub earlier: bool,
    /// When `/proc` was read last, monotonic.
    pub looked_at: u64,
    /// What all of this takes of its user's share of memory.
    pub held: Option<Held>,
    /// It took more than that share.
    pub is_stripped: bool,
    /// What the kernel says is mapped.
    pub space: Option<SharedSpace>,
}

/// The mount namespace in which a process was found, and its root if that is to be looked at.
pub struct Entered {
    pub namespace: Namespace,
    pub root: Option<Root>,
}

/// Whose process it is of which an image is learned.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    pub pid: u32,
    pub user: u32,
}

impl About {
    pub fn variables(&self) -> Variables<'_, Bytes> {
        Variables(&self.ids)
    }

    /// Takes what all of this needs of its user's share of memory. If that is used up, only the program's path is kept.
    pub fn hold(&mut self, user: u32, around: &Surroundings) {
        self.held = None;
        self.held = around.memory.hold(user, self.weight());
        if self.held.is_some() {
            return;
        }
        if !std::mem::replace(&mut self.is_stripped, true) {
            around.counters.images_without_content.one();
        }
        (self.argv, self.env, self.cwd, self.late) = (None, None, None, None);
        (self.ids, self.objects) = (Vec::new(), Objects::Unknown);
    }

    /// How much memory this takes, about.
    fn weight(&self) -> usize {
        let lists = [self.argv.as_deref(), self.env.as_deref(), Some(&self.ids[..])].into_iter().flatten();
        let objects = match &self.objects {
            Objects::Unknown => &[][..],
            Objects::Told { list, .. } | Objects::Mapped { list, .. } => list,
        };
        let late = self.late.as_ref().map_or(&[][..], |(list, _)| list);
        let paths = self.exe.as_ref().map_or(0, |exe| 2 * exe.path.len())
            + self.cwd.as_ref().map_or(0, |cwd| cwd.len());
        size_of::<About>()
            + paths
            + lists.map(weight_of_list).sum::<usize>()
            + objects.iter().chain(late).map(Seen::weight).sum::<usize>()
    }

    /// Forgets what was read in `/proc` if the next image had begun by then: it may be the next one's.
    pub fn distrust_after(&mut self, next_image: u64) {
        if !self.from_guest && self.looked_at >= next_image {
            *self = About {
                earlier: self.earlier,
                suppressed: self.suppressed,
                space: self.space.take(),
                ..About::default()
            };
        }
    }

    /// Takes over what the guest says at its end, in the memory it shares with us. The kernel's word comes first.
    pub fn hear_late(
        &mut self,
        memory: Option<(OwnedFd, Held)>,
        owner: Owner,
        is_whole: bool,
        files: &Files,
    ) {
        let mut told = Vec::new();
        if let Some((memory, _held)) = memory {
            let mut bytes = vec![0; late::BYTES];
            // The size is whatever the process made of it.
            let n = OsFile::from(memory).read_at(&mut bytes, 0).unwrap_or(0);
            if let Some(Ok(late)) = bytes.get(..n).and_then(decode_late) {
                // The kernel has reported those as well.
                let missing = u64::from(late.cut) + u64::from(late.unloaded);
                self.late_cut = if is_whole { 0 } else { missing };
                told = late.objects;
            }
        }
        self.set_late(told, owner, files);
    }

    /// The objects mapped besides those at the start, and those that the guest claims beside them.
    fn set_late(&mut self, told: Vec<Object>, owner: Owner, files: &Files) {
        let Objects::Told { list: known, .. } = &self.objects else { return };
        let late = match &self.space {
            Some(space) => space.borrow().late(known, told),
            None => told.into_iter().map(spaces::claim).collect(),
        };
        // What was seen while it lived is not forgotten when nothing more is known.
        if late.is_empty() {
            return;
        }
        let key = ListKey::new(&late, self.namespace);
        let _ = files.resolve(owner.user, key, &late, owner.pid, self.namespace.is_some());
        self.late = Some((late, key));
    }

    /// Takes over what the kernel has mapped: beside the guest's list, or for the objects where no guest speaks.
    pub fn note_mapped(&mut self, owner: Owner, files: &Files) {
        if self.from_guest {
            self.set_late(Vec::new(), owner, files);
        } else {
            self.set_mapped(owner, files);
        }
    }

    /// Finds again what an earlier agent has listed: it runs, so the kernel has it mapped.
    pub fn find_again(&mut self, owner: Owner, files: &Files) {
        let (Objects::Told { list, key, .. }, Some(space)) = (&mut self.objects, &self.space) else { return };
        for seen in list.iter_mut().filter(|seen| !seen.claimed) {
            seen.inode = space.borrow().named(&seen.path);
        }
        *key = ListKey::new(list, self.namespace);
        let _ = files.resolve(owner.user, *key, list, owner.pid, self.namespace.is_some());
    }

    fn set_mapped(&mut self, owner: Owner, files: &Files) {
        let Some(space) = self.space.as_ref().filter(|_| !self.from_guest && !self.off) else { return };
        let list = space.borrow().objects(u64::MAX, Vec::new());
        if list.is_empty() {
            return;
        }
        let key = ListKey::new(&list, self.namespace);
        let _ = files.resolve(owner.user, key, &list, owner.pid, self.namespace.is_some());
        self.objects = Objects::Mapped { list, key };
    }

    /// The program is the file that the kernel has mapped first. What `/proc` shows may be the next image's already.
    pub fn settle_exe(&mut self) {
        let Some(space) = self.space.as_ref().map(|space| space.borrow()) else { return };
        let Some(program) = space.program() else { return };
        let is_it = |exe: &Exe| {
            let number = exe.stat.map(|stat| stat.inode).or(exe.inode.map(|inode| inode.number));
            number == Some(program.inode.number) || exe.stat.is_some() && exe.path == program.path
        };
        if let Some(exe) = self.exe.as_mut().filter(|exe| is_it(exe)) {
            exe.inode = Some(program.inode);
            return;
        }
        let mark: &[u8] = if program.deleted { b" (deleted)" } else { b"" };
        self.exe = Some(Exe {
            link: Bytes([&program.path[..], mark].concat()),
            path: program.path.clone(),
            deleted: program.deleted,
            stat: None,
            inode: Some(program.inode),
        });
    }

    /// Remembers in which mount namespace the process is, if not in ours, and has its root looked at.
    pub fn enter(&mut self, entered: Option<Entered>, owner: Owner, around: &Surroundings) {
        let Some(Entered { namespace, root }) = entered else { return };
        self.namespace = Some(namespace);
        if let Some(root) = root {
            self.awaits_root |= around.files.enter(owner.user, namespace, owner.pid, root);
        }
    }

    /// Takes over what the guest says. `is_whole` says that the kernel's list of mapped files is.
    pub fn hear(&mut self, start: Start, owner: Owner, is_whole: bool, around: &Surroundings) {
        let known = self.exe.take().filter(|known| known.link == start.exe || known.inode.is_some());
        if known.is_none() && !start.exe.is_empty() {
            // Gone before we looked, or another image's: the inode in its accounting may tell more.
            let path = Bytes::from(start.exe.strip_suffix(b" (deleted)").unwrap_or(&start.exe));
            let deleted = path.len() < start.exe.len();
            self.exe = Some(Exe { path, link: start.exe, deleted, ..Exe::default() });
        } else {
            self.exe = known;
        }
        self.settle_exe();
        (self.argv, self.env) = (Some(start.argv), Some(start.env));
        self.argv_cut = start.argv_cut;
        self.cwd = start.cwd.or(self.cwd.take());
        self.ids = start.ids;
        self.from_guest = true;
        self.container = container::from_variables(Variables(&self.ids));
        let list = match &self.space {
            Some(space) => space.borrow().objects(start.time, start.objects),
            None => start.objects.into_iter().map(spaces::claim).collect(),
        };
        let key = ListKey::new(&list, self.namespace);
        let _ = around.files.resolve(owner.user, key, &list, owner.pid, self.namespace.is_some());
        let cut = if is_whole { 0 } else { start.objects_cut };
        self.objects = Objects::Told { list, key, cut };
    }
}

/// A finished image with the lists it refers to.
#[derive(Debug)]
pub struct Finished {
    pub image: Image,
    pub lists: Vec<Arc<ObjectList>>,
    /// The user it counts as, and what it takes of their share of memory.
    pub user: u32,
    pub held: Option<Held>,
}

impl Finished {
    /// Takes what it needs of its user's share of memory; without it, only what the kernel told is kept.
    pub fn new(mut image: Image, mut lists: Vec<Arc<ObjectList>>, around: &Surroundings) -> Finished {
        let user = image.uid.map_or(super::NOBODY, |uid| around.owners.of(uid));
        let mut held = around.memory.hold(user, weight(&image, &lists));
        if held.is_none() {
            around.counters.images_without_content.one();
            (image.argv, image.env, image.cwd) = (None, None, None);
            (image.modules, image.module_files) = (None, None);
            (image.objects, image.late_objects) = (None, None);
            lists.clear();
            // As many as may be queued, and no more, are held in all.
            held = Some(around.memory.hold_anyway(user, PROCESS_BYTES));
        }
        Finished { image, lists, user, held }
    }

    /// The image with its objects, as the next agent would read it.
    pub fn known(self) -> (Image, Option<ObjectList>) {
        let list = self.lists.iter().find(|list| Some(list.id) == self.image.objects);
        let list = list.map(|list| ObjectList::clone(list));
        (self.image, list)
    }
}

/// How much memory an image takes on its way to the spool, about. A list is shared with all that have loaded the same.
fn weight(image: &Image, lists: &[Arc<ObjectList>]) -> usize {
    let strings = [&image.argv, &image.env, &image.modules, &image.module_files];
    let objects = |list: &Arc<ObjectList>| {
        let weight: usize = list.objects.iter().map(|object| object.path.len() + 3 * PATH_OVERHEAD).sum();
        weight / Arc::strong_count(list)
    };
    PROCESS_BYTES
        + strings.into_iter().flatten().map(|list| weight_of_list(list)).sum::<usize>()
        + [&image.exe, &image.cwd].into_iter().flatten().map(|path| path.len()).sum::<usize>()
        + lists.iter().map(objects).sum::<usize>()
}

/// An image that has ended, or as it is while it runs.
pub struct Draft {
    pub key: ImageKey,
    pub start: u64,
    pub end: Option<u64>,
    pub ended_by: EndedBy,
    pub status: Option<u32>,
    /// When it began to wait.
    pub ended_at: u64,
    pub ppid: Option<u32>,
    pub credentials: Credentials,
    pub held: Option<Held>,
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
    /// It was reported while it ran.
    pub is_reported: bool,
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
            credentials: process.credentials,
            held: None,
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
            is_reported: image.report.is_told,
        }
    }

    pub fn end(&mut self, time: u64, by: EndedBy, status: Option<u32>) {
        self.end = Some(time);
        self.ended_at = time;
        self.ended_by = by;
        self.status = status;
    }

    /// Whether nothing more can be expected.
    pub fn is_complete(&self, files: &Files) -> bool {
        let about = self.about.borrow();
        let is_heard = about.from_guest || self.forked_from.is_some() && self.key.exec == 0;
        let is_charged = self.ended_by != EndedBy::Exec || self.heard_next;
        is_heard && is_charged && self.is_resolved(files)
    }

    /// Whether its root and all objects that it is known to have loaded were looked at.
    pub fn is_resolved(&self, files: &Files) -> bool {
        let about = self.about.borrow();
        let namespace = about.namespace.filter(|_| about.awaits_root);
        if namespace.is_some_and(|namespace| !files.is_looked_at(namespace, self.start)) {
            return false;
        }
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
        self.about.borrow_mut().settle_exe();
        self.find_exe_by_inode(&around.files);
        let about = self.about.borrow();
        let exe_path = about.exe.as_ref().map(|exe| exe.path.clone());
        if self.is_skipped(around, exe_path.as_ref()) {
            around.counters.suppressed_by_rule.one();
            return None;
        }
        if about.suppressed {
            around.counters.guest_suppression_refused.one();
        }
        let (objects, objects_cut) = resolved(&about.objects, &around.files);
        let user = around.user_of(&self.credentials);
        let noted = about.exe.as_ref().and_then(|exe| exe.note(self.key.pid, user, around));
        let exe_file = noted.or_else(|| program_of(&about, objects.as_deref()));
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
            uid: self.credentials.real(),
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
                about.namespace.and_then(|namespace| around.files.container(namespace, self.start))
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
            running_at: None,
            reported: self.is_reported,
        };
        let lists: Vec<Arc<ObjectList>> = objects.into_iter().chain(late).collect();
        let claimed = lists.iter().flat_map(|list| &list.objects).filter(|object| object.claimed).count();
        around.counters.objects_claimed.add(claimed as u64);
        drop(about);
        if Rc::strong_count(&self.about) == 1 {
            // Nobody else knows it: it is gone in a moment, and the record is in its place.
            self.about.borrow_mut().held = None;
        }
        Some(Finished::new(image, lists, around))
    }

    /// The name of the cluster, if this is a process of a job and says it.
    pub fn cluster(&self) -> Option<String> {
        self.context.job.as_ref()?;
        self.about.borrow().variables().text("SLURM_CLUSTER_NAME")
    }

    fn is_skipped(&self, around: &Surroundings, exe: Option<&Bytes>) -> bool {
        let Some(rules) = Rules::new(&around.rules) else { return false };
        exe.is_some_and(|exe| rules.skips_exe(exe))
            || self.credentials.real().is_some_and(|uid| rules.skips_uid(uid.to_string().as_bytes()))
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
            // A path that only the message has is a claim.
            let known = about.exe.take().filter(|exe| exe.inode.is_some());
            let path = known.as_ref().map_or(file.path, |exe| exe.path.clone());
            let inode = known.and_then(|exe| exe.inode);
            about.exe = Some(Exe { link: path.clone(), path, deleted: false, stat: Some(stat), inode });
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

/// The file of the program, which is the first of the objects if the kernel has reported them.
fn program_of(about: &About, objects: Option<&ObjectList>) -> Option<u64> {
    let (Objects::Told { list, .. } | Objects::Mapped { list, .. }) = &about.objects else { return None };
    let inode = about.exe.as_ref()?.inode?;
    (list.first()?.inode == Some(inode)).then(|| objects?.objects.first()?.file)?
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
