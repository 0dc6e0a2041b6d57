//! Recorded trees of several kernels, and what is read from them.

use std::fs;
use std::path::Path;

use super::*;

/// A tree from `path: content` pairs.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    files.iter().for_each(|(path, content)| write(tree.path(), path, content));
    tree
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn cgroups(tree: &tempfile::TempDir) -> Cgroups {
    Cgroups::new(tree.path(), "/none")
}

const JOB: &str = "system.slice/slurmstepd.scope/job_5";

/// Linux 6.6.
fn v2_tree() -> tempfile::TempDir {
    let files = [
        (
            "cpu.stat",
            "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\ncore_sched.force_idle_usec 0\nnr_periods 10\n\
             nr_throttled 4\nthrottled_usec 70\nnr_bursts 0\nburst_usec 0\n",
        ),
        ("memory.current", "1000\n"),
        ("memory.peak", "2000\n"),
        ("memory.max", "4294967296\n"),
        ("memory.swap.current", "30\n"),
        (
            "memory.stat",
            "anon 500\nfile 400\nkernel 90\nkernel_stack 16\npagetables 8\nsec_pagetables 0\npercpu 0\nsock 0\n\
             vmalloc 0\nshmem 20\nzswap 0\nzswapped 0\nfile_mapped 10\nfile_dirty 5\nfile_writeback 0\n",
        ),
        ("memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"),
        ("io.stat", "259:0 rbytes=100 wbytes=200 rios=3 wios=4 dbytes=0 dios=0\n8:0 \n"),
        ("pids.current", "17\n"),
        (
            "cpu.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=11\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
        ),
        (
            "memory.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2\n",
        ),
        (
            "io.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=13\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n",
        ),
        ("cpuset.cpus.effective", "0-3,64-67\n"),
    ];
    let tree = tree(&[("cgroup.controllers", "cpuset cpu io memory pids\n")]);
    files.iter().for_each(|(name, content)| write(tree.path(), &format!("{JOB}/{name}"), content));
    tree
}

fn v2_usage() -> Usage {
    Usage {
        cpu: Cpu {
            total_ns: Some(5_000_000),
            user_ns: Some(3_000_000),
            system_ns: Some(2_000_000),
            periods: Some(10),
            throttled_periods: Some(4),
            throttled_ns: Some(70_000),
        },
        memory: Memory {
            current: Some(1000),
            peak: Some(2000),
            limit: Some(Limit::Bytes(1 << 32)),
            swap: Some(30),
            anon: Some(500),
            file: Some(400),
            mapped_file: Some(10),
            shmem: Some(20),
            kernel: Some(90),
            oom_kills: Some(2),
            limit_hits: Some(12),
        },
        io: Io { read_bytes: Some(100), written_bytes: Some(200), reads: Some(3), writes: Some(4) },
        pressure: Pressure {
            cpu: Stall { some_us: Some(11), full_us: Some(1) },
            memory: Stall { some_us: Some(12), full_us: Some(2) },
            io: Stall { some_us: Some(13), full_us: Some(3) },
        },
        tasks: Some(17),
        processors: Some(8),
        is_gone: false,
    }
}

fn job_groups() -> Groups {
    Groups::parse(format!("0::/{JOB}/step_0/user/task_0\n").as_bytes())
        .up_to(|part| part.starts_with(b"job_"))
}

#[test]
fn the_second_version_whole() {
    assert_eq!(cgroups(&v2_tree()).read(&job_groups()), v2_usage());
}

/// Linux 5.14, with pressure and the accounting of swap switched off.
#[test]
fn what_a_kernel_does_not_tell_is_unknown() {
    let tree = v2_tree();
    for name in ["memory.peak", "cpu.pressure", "memory.pressure", "io.pressure", "memory.swap.current"] {
        fs::remove_file(tree.path().join(JOB).join(name)).unwrap();
    }
    write(
        tree.path(),
        &format!("{JOB}/memory.stat"),
        "anon 500\nfile 400\nkernel_stack 16\nshmem 20\nfile_mapped 10\n",
    );
    write(tree.path(), &format!("{JOB}/cpu.stat"), "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\n");
    let whole = v2_usage();
    let expected = Usage {
        cpu: Cpu { periods: None, throttled_periods: None, throttled_ns: None, ..whole.cpu },
        memory: Memory { peak: None, kernel: None, swap: None, ..whole.memory },
        pressure: Pressure::default(),
        ..whole
    };
    assert_eq!(cgroups(&tree).read(&job_groups()), expected);
}

#[test]
fn a_group_that_is_gone_says_so() {
    let gone = Usage { is_gone: true, ..Usage::default() };
    let tree = v2_tree();
    let mut cgroups = cgroups(&tree);
    for (text, expected) in [
        ("0::/system.slice/slurmstepd.scope/job_6\n", gone),
        // Which is not known is not gone, nor is one without files, nor one whose hierarchy is not mounted.
        ("", Usage::default()),
        ("0::/system.slice\n", Usage::default()),
        ("4:memory:/slurm/job_6\n", Usage::default()),
    ] {
        assert_eq!(cgroups.read(&Groups::parse(text.as_bytes())), expected, "{text}");
    }
}

const V1: &str = "11:memory:/slurm/job_5\n10:blkio:/slurm/job_5\n9:cpu,cpuacct:/slurm/job_5\n8:pids:/slurm/job_5\n\
                  7:cpuset:/slurm/job_5\n6:devices:/slurm/job_5\n1:name=systemd:/x\n";

/// RHEL 8: no recursive files of traffic, kills counted at the very group.
fn v1_tree() -> tempfile::TempDir {
    tree(&[
        ("cpu,cpuacct/slurm/job_5/cpuacct.usage", "9000\n"),
        ("cpu,cpuacct/slurm/job_5/cpuacct.usage_user", "6000\n"),
        ("cpu,cpuacct/slurm/job_5/cpuacct.usage_sys", "3000\n"),
        ("cpu,cpuacct/slurm/job_5/cpu.stat", "nr_periods 7\nnr_throttled 2\nthrottled_time 77\n"),
        ("memory/slurm/job_5/memory.usage_in_bytes", "1000\n"),
        ("memory/slurm/job_5/memory.max_usage_in_bytes", "2000\n"),
        ("memory/slurm/job_5/memory.limit_in_bytes", "9223372036854771712\n"),
        ("memory/slurm/job_5/memory.kmem.usage_in_bytes", "90\n"),
        ("memory/slurm/job_5/memory.failcnt", "12\n"),
        (
            "memory/slurm/job_5/memory.stat",
            "cache 1\nrss 2\nshmem 3\nswap 4\ntotal_cache 400\ntotal_rss 500\ntotal_rss_huge 0\ntotal_shmem 20\n\
             total_mapped_file 10\ntotal_swap 30\n",
        ),
        ("memory/slurm/job_5/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
        ("memory/slurm/job_5/step_0/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        (
            "memory/slurm/job_5/step_0/task_0/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
        ),
        ("blkio/slurm/job_5/blkio.throttle.io_service_bytes", "8:0 Read 60\n8:0 Write 0\nTotal 60\n"),
        (
            "blkio/slurm/job_5/step_0/blkio.throttle.io_service_bytes",
            "8:0 Read 40\n8:0 Write 200\nTotal 240\n",
        ),
        ("blkio/slurm/job_5/blkio.throttle.io_serviced", "8:0 Read 1\n8:0 Write 0\nTotal 1\n"),
        ("blkio/slurm/job_5/step_0/blkio.throttle.io_serviced", "8:0 Read 2\n8:0 Write 4\nTotal 6\n"),
        ("pids/slurm/job_5/pids.current", "17\n"),
        ("cpuset/slurm/job_5/cpuset.cpus", "0-7\n"),
    ])
}

fn v1_usage() -> Usage {
    Usage {
        cpu: Cpu {
            total_ns: Some(9000),
            user_ns: Some(6000),
            system_ns: Some(3000),
            periods: Some(7),
            throttled_periods: Some(2),
            throttled_ns: Some(77),
        },
        memory: Memory { limit: Some(Limit::Unlimited), oom_kills: Some(7), ..v2_usage().memory },
        pressure: Pressure::default(),
        ..v2_usage()
    }
}

#[test]
fn the_first_version_whole() {
    assert_eq!(cgroups(&v1_tree()).read(&Groups::parse(V1.as_bytes())), v1_usage());
}

#[test]
fn files_of_older_and_newer_kernels_of_the_first_version() {
    let tree = v1_tree();
    let job = |controller: &str| tree.path().join(controller).join("slurm/job_5");
    fs::remove_file(job("cpu,cpuacct").join("cpuacct.usage_sys")).unwrap();
    write(&job("cpu,cpuacct"), "cpuacct.stat", "user 5\nsystem 6\n");
    write(&job("blkio"), "blkio.throttle.io_service_bytes_recursive", "8:0 Read 7\n8:0 Write 8\nTotal 15\n");
    write(&job("cpuset"), "cpuset.effective_cpus", "0-1\n");
    // Older kernels do not count kills: a sum with an unknown part is unknown.
    write(&job("memory"), "step_0/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n");
    let usage = cgroups(&tree).read(&Groups::parse(V1.as_bytes()));
    let second = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    assert_eq!((usage.cpu.user_ns, usage.cpu.system_ns), (Some(5 * second), Some(6 * second)));
    assert_eq!((usage.io.read_bytes, usage.io.written_bytes, usage.io.reads), (Some(7), Some(8), Some(3)));
    assert_eq!(usage.processors, Some(2));
    assert_eq!(usage.memory.oom_kills, None);
}

/// Recent kernels give such a list whatever was read and written.
#[test]
fn an_empty_list_of_traffic_is_zero_only_where_traffic_is_counted() {
    let file = "blkio.throttle.io_service_bytes_recursive";
    let tree =
        tree(&[(&format!("blkio/slurm/job_5/{file}"), "Total 0\n"), (&format!("blkio/{file}"), "Total 0\n")]);
    let groups = Groups::parse(V1.as_bytes());
    assert_eq!(cgroups(&tree).read(&groups).io, Io::default());
    write(tree.path(), &format!("blkio/{file}"), "8:0 Read 7\n8:0 Write 8\nTotal 15\n");
    let io = cgroups(&tree).read(&groups).io;
    assert_eq!((io.read_bytes, io.written_bytes, io.reads), (Some(0), Some(0), None));
    // A kernel without the recursive files counts always.
    fs::remove_file(tree.path().join("blkio/slurm/job_5").join(file)).unwrap();
    write(tree.path(), "blkio/slurm/job_5/blkio.throttle.io_service_bytes", "Total 0\n");
    assert_eq!(cgroups(&tree).read(&groups).io.read_bytes, Some(0));
}

#[test]
fn a_walk_that_is_too_long_or_too_deep_is_unknown() {
    let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
    let kills = |groups: &[String]| {
        let tree = tree(&[("memory/slurm/job_5/memory.oom_control", control)]);
        groups.iter().for_each(|group| {
            write(&tree.path().join("memory/slurm/job_5"), &format!("{group}/memory.oom_control"), control)
        });
        cgroups(&tree).read(&Groups::parse(V1.as_bytes())).memory.oom_kills
    };
    let deep = |depth: usize| (1..=depth).map(|n| vec!["d"; n].join("/")).collect::<Vec<_>>();
    let wide = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!((kills(&deep(8)), kills(&deep(9))), (Some(9), None));
    assert_eq!((kills(&wide(1024)), kills(&wide(1025))), (Some(1025), None));
}

/// Slurm on the first version, pressure from the second.
#[test]
fn a_hybrid_machine_gives_what_each_version_has() {
    let tree = v1_tree();
    write(tree.path(), "unified/cgroup.controllers", "hugetlb\n");
    write(tree.path(), "unified/a/cpu.stat", "usage_usec 1\nuser_usec 1\nsystem_usec 0\n");
    write(tree.path(), "unified/a/io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=13\n");
    let usage = cgroups(&tree).read(&Groups::parse(format!("{V1}0::/a\n").as_bytes()));
    let io = Stall { some_us: Some(13), full_us: None };
    assert_eq!(usage, Usage { pressure: Pressure { io, ..Pressure::default() }, ..v1_usage() });
    // Without a group of the first version the second tells the time.
    let usage = cgroups(&tree).read(&Groups::parse(b"0::/a\n"));
    assert_eq!(usage.cpu.total_ns, Some(1000));
}

#[test]
fn controllers_are_found_by_either_name_and_looked_for_again() {
    let tree = tree(&[("cpuacct,cpu/slurm/job_5/cpuacct.usage", "9000\n")]);
    let mut cgroups = cgroups(&tree);
    let groups = Groups::parse(V1.as_bytes());
    assert_eq!(cgroups.read(&groups).cpu.total_ns, Some(9000));
    write(tree.path(), "pids/slurm/job_5/pids.current", "17\n");
    let readings = (0..).find(|_| cgroups.read(&groups).tasks == Some(17)).unwrap();
    assert_eq!(readings, LOOK_AGAIN);
}

#[test]
fn the_directory_of_a_controller_is_that_of_its_version() {
    let tree = tree(&[("memory/x", ""), ("unified/cgroup.controllers", "")]);
    let mut cgroups = cgroups(&tree);
    let groups = Groups::parse(b"4:memory:/a\n3:perf_event:/b\n0::/c\n");
    let mut directory = |controller| cgroups.directory(&groups, controller);
    assert_eq!(directory(Controller::Memory), Some(tree.path().join("memory/a")));
    assert_eq!(directory(Controller::PerfEvent), Some(tree.path().join("unified/c")));
    assert_eq!(cgroups.directory(&Groups::default(), Controller::Memory), None);
}
