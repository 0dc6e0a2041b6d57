//! Where a process belongs: the text of `/proc/PID/cgroup`.

use crate::read::lines;

/// A controller of the first version that is of use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Controller {
    Blkio,
    Cpu,
    Cpuacct,
    Cpuset,
    Devices,
    Freezer,
    Memory,
    PerfEvent,
    Pids,
}

impl Controller {
    /// From the name it has in the kernel's lists and in the names of directories.
    pub(crate) fn named(name: &[u8]) -> Option<Controller> {
        Some(match name {
            b"blkio" => Controller::Blkio,
            b"cpu" => Controller::Cpu,
            b"cpuacct" => Controller::Cpuacct,
            b"cpuset" => Controller::Cpuset,
            b"devices" => Controller::Devices,
            b"freezer" => Controller::Freezer,
            b"memory" => Controller::Memory,
            b"perf_event" => Controller::PerfEvent,
            b"pids" => Controller::Pids,
            _ => return None,
        })
    }
}

/// The control groups of a process: one per controller in the first version, one for all in the second, both on hybrid
/// machines. Paths begin with `/` at the mount point.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Groups {
    v1: Vec<(Controller, Vec<u8>)>,
    v2: Option<Vec<u8>>,
}

impl Groups {
    /// From `hierarchy:controllers:path` lines. The second version has the hierarchy 0 and no controllers.
    pub fn parse(text: &[u8]) -> Groups {
        let mut groups = Groups::default();
        for line in lines(text) {
            let mut fields = line.splitn(3, |byte| *byte == b':');
            let (Some(hierarchy), Some(names), Some(path)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if hierarchy == b"0" && names.is_empty() {
                // A process that was not yet waited for may outlive its group.
                let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
                groups.v2 = groups.v2.or_else(|| own(path));
            }
            for controller in names.split(|byte| *byte == b',').filter_map(Controller::named) {
                if groups.v1(controller).is_none() {
                    groups.v1.extend(own(path).map(|path| (controller, path)));
                }
            }
        }
        groups
    }

    /// The group of a controller of the first version.
    pub fn v1(&self, controller: Controller) -> Option<&[u8]> {
        self.v1.iter().find(|(known, _)| *known == controller).map(|(_, path)| path.as_slice())
    }

    /// The group of the second version.
    pub fn v2(&self) -> Option<&[u8]> {
        self.v2.as_deref()
    }

    /// All groups of the first version.
    pub fn all_v1(&self) -> impl Iterator<Item = (Controller, &[u8])> {
        self.v1.iter().map(|(controller, path)| (*controller, path.as_slice()))
    }

    /// Whether no group is known.
    pub fn is_empty(&self) -> bool {
        self.v1.is_empty() && self.v2.is_none()
    }

    /// Cuts each path after its first component that is wanted. A path without one is left out: where a resource manager
    /// does not use a controller, its processes are in the group of a service or at the top, and what that used is not
    /// theirs.
    pub fn up_to(&self, is_wanted: impl Fn(&[u8]) -> bool) -> Groups {
        let cut = |path: &[u8]| cut_after(path, &is_wanted).map(<[u8]>::to_vec);
        Groups {
            v1: self.v1.iter().filter_map(|(controller, path)| Some((*controller, cut(path)?))).collect(),
            v2: self.v2.as_deref().and_then(cut),
        }
    }
}

/// A path that lies below the mount point. The kernel shows a group outside of the reader's namespace as `/../other`.
fn own(path: &[u8]) -> Option<Vec<u8>> {
    let is_inside = path.starts_with(b"/") && !path.split(|byte| *byte == b'/').any(|part| part == b"..");
    is_inside.then(|| path.to_vec())
}

fn cut_after<'a>(path: &'a [u8], is_wanted: &impl Fn(&[u8]) -> bool) -> Option<&'a [u8]> {
    let mut end = 0;
    for part in path.split(|byte| *byte == b'/') {
        end += part.len();
        if !part.is_empty() && is_wanted(part) {
            return path.get(..end);
        }
        end += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(groups: &Groups) -> Vec<(Controller, &str)> {
        groups.all_v1().map(|(controller, path)| (controller, std::str::from_utf8(path).unwrap())).collect()
    }

    #[test]
    fn lines_of_both_versions() {
        let hybrid = Groups::parse(
            b"12:pids:/slurm/uid_1\n4:cpu,cpuacct:/slurm/a:b\n3:memory:/../up\n1:name=systemd:/init\n0::/x (deleted)\n",
        );
        let expected = [
            (Controller::Pids, "/slurm/uid_1"),
            (Controller::Cpu, "/slurm/a:b"),
            (Controller::Cpuacct, "/slurm/a:b"),
        ];
        assert_eq!(paths(&hybrid), expected);
        assert_eq!(hybrid.v2(), Some(&b"/x"[..]));
        for nothing in [&b""[..], b"::\n", b"0::relative\n", b"0::/a/../../b\n", b"5:net_cls:/\n", b"x"] {
            assert!(Groups::parse(nothing).is_empty(), "{nothing:?}");
        }
    }

    #[test]
    fn paths_are_cut_at_what_is_wanted_or_left_out() {
        for (text, v1, v2) in [
            ("4:memory:/slurm/uid_1/job_5/step_0/task_0\n", Some("/slurm/uid_1/job_5"), None),
            ("4:memory:/slurm/uid_1/job_5\n0::/\n", Some("/slurm/uid_1/job_5"), None),
            (
                "4:memory:/\n0::/system.slice/slurmstepd.scope/job_5/step_0/user\n",
                None,
                Some("/system.slice/slurmstepd.scope/job_5"),
            ),
            ("4:memory:/a/job_5/b/job_6\n", Some("/a/job_5"), None),
            ("0::/system.slice/slurmd.service\n", None, None),
        ] {
            let cut = Groups::parse(text.as_bytes()).up_to(|part| part.starts_with(b"job_"));
            assert_eq!(cut.v1(Controller::Memory), v1.map(str::as_bytes), "{text}");
            assert_eq!(cut.v2(), v2.map(str::as_bytes), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Groups::parse(&bytes).up_to(|part| part.len() == 3);
        }

        #[test]
        fn what_is_cut_is_a_beginning_of_the_path(path in "(/[abj]{0,3}){0,6}") {
            let text = format!("0::{path}\n");
            let groups = Groups::parse(text.as_bytes());
            let cut = groups.up_to(|part| part.starts_with(b"j"));
            let wanted = path.split('/').any(|part| part.starts_with('j'));
            prop_assert_eq!(cut.v2().is_some(), wanted);
            if let Some(cut) = cut.v2() {
                prop_assert!(path.as_bytes().starts_with(cut));
                prop_assert!(cut.rsplit(|byte| *byte == b'/').next().unwrap().starts_with(b"j"));
            }
        }
    }
}
