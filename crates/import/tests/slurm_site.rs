//! `scontrol show partition`, `node` and `config`, and `sacctmgr show`.

use import::slurm::association::{self, Account, User};
use import::slurm::site::{config, nodes, partitions};
use import::{Problem, Reason};
use proptest::prelude::*;
use record::accounting::{TimeLimit, Tres};
use record::site::{Association, Config, Gpus, Node, Partition};

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// A reader of one kind of output.
type Read<T> = fn(&[u8], &str, &mut dyn FnMut(Problem<'_>)) -> T;

fn collect<T>(read: Read<T>, text: &[u8]) -> (T, Vec<String>) {
    let mut problems = Vec::new();
    let found = read(text, "site", &mut |problem| problems.push(problem.to_string()));
    (found, problems)
}

/// What was read, and nothing was wrong.
fn good<T>(read: Read<T>, text: &[u8]) -> T {
    let (found, problems) = collect(read, text);
    assert_eq!(problems, [""; 0]);
    found
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn partitions_of_a_real_cluster() {
    let found = good(partitions, include_bytes!("data/slurm-22.05/partitions.txt"));
    assert_eq!(found, good(partitions, include_bytes!("data/slurm-22.05/partitions_one_line.txt")));
    let names: Vec<&str> = found.iter().map(|partition| partition.name.as_str()).collect();
    assert_eq!(names, ["regular", "test", "gpu", "empty", "hdd"]);
    let tres = |kind: &str, count| Tres { kind: kind.into(), name: None, count };
    let regular = Partition {
        name: "regular".into(),
        nodes: Some("n[1-4]".into()),
        node_count: Some(4),
        cpus: Some(16),
        max_time: Some(TimeLimit::Unlimited),
        is_default: Some(true),
        state: Some("UP".into()),
        tres: vec![tres("cpu", 16), tres("mem", 8000 * MIB), tres("node", 4), tres("billing", 16)],
        ..Partition::default()
    };
    assert_eq!(found[0], regular);
    let gpu = &found[2];
    assert_eq!(gpu.default_time, Some(1800 * SECOND));
    assert_eq!(gpu.max_time, Some(TimeLimit::Nanos(2 * 86_400 * SECOND)));
    assert_eq!(gpu.allow_accounts, Some(strings(&["physics", "chemistry"])));
    assert_eq!(gpu.is_default, Some(false));
    let empty = &found[3];
    assert_eq!((&empty.nodes, empty.node_count, &empty.tres), (&None, Some(0), &vec![]));
    assert_eq!(empty.state.as_deref(), Some("DOWN"));
}

#[test]
fn nodes_of_a_real_cluster() {
    let found = good(nodes, include_bytes!("data/slurm-22.05/nodes.txt"));
    assert_eq!(found, good(nodes, include_bytes!("data/slurm-22.05/nodes_one_line.txt")));
    let gpus = |model: &str, count| Gpus { model: Some(model.into()), count };
    let n3 = Node {
        name: "n3".into(),
        arch: Some("x86_64".into()),
        os: Some("Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC @0".into()),
        sockets: Some(1),
        cores_per_socket: Some(2),
        threads_per_core: Some(2),
        cpus: Some(4),
        cores: Some(2),
        memory: Some(2000 * MIB),
        tmp_disk: Some(500 * MIB),
        gres: Some("gpu:a100:2,gpu:v100:1".into()),
        gpus: vec![gpus("a100", 2), gpus("v100", 1)],
        features: strings(&["avx512", "ib"]),
        partitions: strings(&["regular", "test", "gpu"]),
        state: Some("ALLOCATED".into()),
        weight: Some(10),
        version: Some("22.05.8".into()),
        peak_flops: None,
    };
    assert_eq!(found[2], n3);
    // Why it is drained says `State=IDLE RealMemory=1`.
    assert_eq!((found[3].state.as_deref(), found[3].memory), (Some("IDLE+DRAIN"), Some(2000 * MIB)));
    assert_eq!((&found[3].gres, found[3].gpu_count(), found[3].tmp_disk), (&None, None, None));
}

/// In the form of 24.11: other keys between those that are read, and some whose names end like theirs.
const NEWER_NODE: &[u8] = b"NodeName=g1 Arch=x86_64 CoresPerSocket=64 \n   CPUAlloc=0 CPUEfctv=254 CPUTot=256 CPULoad=0.01
   AvailableFeatures=h100\n   ActiveFeatures=(null)\n   Gres=gpu:h100:4(S:0-1),shard:h100:32(S:0-1)\n   GresDrain=N/A
   GresUsed=gpu:h100:0(IDX:N/A),shard:h100:0(0/8,0/8,0/8,0/8)\n   NodeAddr=g1 NodeHostName=g1 Version=24.11.5
   OS=Linux 5.14.0-503.el9.x86_64 #1 SMP PREEMPT_DYNAMIC Tue Nov 12 09:00:00 UTC 2024 
   RealMemory=1031000 AllocMem=0 FreeMem=N/A Sockets=2 Boards=1
   CoreSpecCount=1 CPUSpecList=254-255 MemSpecLimit=4096
   NextState=DOWN State=DOWN+CLOUD+POWERED_DOWN ThreadsPerCore=2 TmpDisk=1800000 Weight=50 Owner=N/A MCS_label=N/A
   Partitions=gpu \n   BootTime=None SlurmdStartTime=None\n   LastBusyTime=Unknown ResumeAfterTime=None
   CfgTRES=cpu=254,mem=1031000M,billing=254,gres/gpu=4\n   AllocTRES=\n   CurrentWatts=0 AveWatts=0\n\n";

const NEWER_PARTITION: &[u8] = b"PartitionName=gpu\n   AllowGroups=ALL DenyAccounts=x AllowQos=ALL
   AllocNodes=ALL Default=NO QoS=gpuq\n   DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO
   MaxNodes=8 MaxTime=3-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED
   NodeSets=gpus\n   Nodes=g[1-2]\n   PriorityJobFactor=1 PriorityTier=1 OverTimeLimit=NONE PreemptMode=OFF
   State=UP TotalCPUs=512 TotalNodes=2 SelectTypeParameters=NONE\n   JobDefaults=DefCpuPerGPU=16
   TRES=cpu=508,mem=2062000M,node=2,billing=508,gres/gpu=8\n   TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.0\n\n";

#[test]
fn newer_versions() {
    let found = good(nodes, NEWER_NODE);
    let [node] = &found[..] else { panic!("{found:?}") };
    assert_eq!((node.cpus, node.cores, node.memory), (Some(256), Some(128), Some(1_031_000 * MIB)));
    assert_eq!(node.os.as_deref().map(|os| os.ends_with("UTC 2024")), Some(true));
    assert_eq!((node.gpu_count(), node.state.as_deref()), (Some(4), Some("DOWN+CLOUD+POWERED_DOWN")));
    assert_eq!((node.weight, node.tmp_disk), (Some(50), Some(1_800_000 * MIB)));
    let found = good(partitions, NEWER_PARTITION);
    let [partition] = &found[..] else { panic!("{found:?}") };
    assert_eq!((partition.nodes.as_deref(), partition.qos.as_deref()), (Some("g[1-2]"), Some("gpuq")));
    assert_eq!((&partition.allow_accounts, partition.is_default), (&None, Some(false)));
    assert_eq!(record::accounting::gpus(&partition.tres), Some(8));
}

#[test]
fn values_of_a_node() {
    let node = |text: &str| collect(nodes, format!("NodeName=n1 {text}\n").as_bytes());
    type Show = fn(&Node) -> String;
    let cases: &[(&str, Show, &str)] = &[
        // Never heard of: Slurm's own values for what it was not told.
        ("RealMemory=1 TmpDisk=0", |node| format!("{:?} {:?}", node.memory, node.tmp_disk), "None None"),
        (
            "RealMemory=2 TmpDisk=3",
            |node| format!("{:?} {:?}", node.memory, node.tmp_disk),
            "Some(2097152) Some(3145728)",
        ),
        ("Gres=gpu:h100:8(S:0-1),shard:64", |node| format!("{:?}", node.gpu_count()), "Some(8)"),
        ("Gres=(null)", |node| format!("{:?} {:?}", node.gres, node.gpus), "None []"),
        ("State=DOWN*+DRAIN", |node| format!("{:?}", node.state), "Some(\"DOWN*+DRAIN\")"),
        ("Sockets=2", |node| format!("{:?} {:?}", node.sockets, node.cores), "Some(2) None"),
        (
            "CPUTot=0 Sockets=0 CoresPerSocket=4",
            |node| format!("{:?} {:?}", node.cpus, node.cores),
            "None None",
        ),
        ("Comment=Version=9 State=UP", |node| format!("{:?} {:?}", node.version, node.state), "None None"),
        ("Extra=a\n   Weight=9", |node| format!("{:?}", node.weight), "None"),
    ];
    for (text, show, expected) in cases {
        let (found, problems) = node(text);
        assert_eq!(
            (found.iter().map(show).collect::<Vec<_>>(), problems),
            (vec![(*expected).to_owned()], vec![]),
            "{text}"
        );
    }
    for (text, reason) in [
        ("CPUTot=many", "CPUTot cannot be `many`"),
        ("RealMemory=-1", "RealMemory cannot be `-1`"),
        ("Gres=gpu:a:b", "Gres cannot be `gpu:a:b`"),
    ] {
        let problem = format!("site:1: rejected: {reason}: NodeName=n1 {text}");
        assert_eq!(node(text), (vec![], vec![problem]), "{text}");
    }
}

#[test]
fn values_of_a_partition() {
    let read = |text: &str| collect(partitions, format!("PartitionName=p {text}\n").as_bytes());
    let hour = TimeLimit::Nanos(3600 * SECOND);
    for (text, default, max) in [
        ("DefaultTime=NONE MaxTime=UNLIMITED", None, Some(TimeLimit::Unlimited)),
        ("DefaultTime=01:00:00 MaxTime=60", Some(3600 * SECOND), Some(hour)),
        ("DefaultTime=UNLIMITED MaxTime=N/A", None, None),
        ("QoS=N/A", None, None),
    ] {
        let (found, problems) = read(text);
        let expected =
            Partition { name: "p".into(), default_time: default, max_time: max, ..Partition::default() };
        assert_eq!((found, problems), (vec![expected], vec![]), "{text}");
    }
    for (text, reason) in [
        ("MaxTime=soon", "MaxTime cannot be `soon`"),
        ("Default=MAYBE", "Default cannot be `MAYBE`"),
        ("TotalNodes=x", "TotalNodes cannot be `x`"),
        ("TRES=cpu", "TRES cannot be `cpu`"),
        ("TRES=cpu=x", "TRES cannot be `cpu=x`"),
    ] {
        let problem = format!("site:1: rejected: {reason}: PartitionName=p {text}");
        assert_eq!(read(text), (vec![], vec![problem]), "{text}");
    }
}

#[test]
fn what_cannot_be_read_does_not_stop_the_rest() {
    let text = b"oh no\nPartitionName=a\n   TotalCPUs=x\n\nPartitionName=b\n   TotalCPUs=4\n";
    let (found, problems) = collect(partitions, text);
    assert_eq!(
        found.iter().map(|partition| (&*partition.name, partition.cpus)).collect::<Vec<_>>(),
        [("b", Some(4))]
    );
    assert_eq!(
        problems,
        [
            "site:1: rejected: not what this command prints: oh no",
            "site:2: rejected: TotalCPUs cannot be `x`: PartitionName=a",
        ]
    );
    assert_eq!(good(nodes, b"No nodes in the system\n"), []);
    assert_eq!(
        collect(nodes, b"NodeName=\n").1,
        ["site:1: rejected: NodeName is empty, and never is: NodeName="]
    );
}

#[test]
fn configurations() {
    let found = good(config, include_bytes!("data/slurm-22.05/config.txt"));
    let expected = Config {
        cluster: Some("deep".into()),
        version: Some("22.05.8".into()),
        store_flags: Some(strings(&["job_comment", "job_env", "job_script"])),
        gather_type: Some("jobacct_gather/cgroup".into()),
        task_plugins: Some(strings(&["task/cgroup"])),
        min_job_age: Some(300 * SECOND),
    };
    assert_eq!(found, expected);
    let none = Config::default;
    for (line, expected) in [
        ("AccountingStoreFlags = (null)", Config { store_flags: Some(vec![]), ..none() }),
        (
            "AccountingStoreJobComment = Yes",
            Config { store_flags: Some(strings(&["job_comment"])), ..none() },
        ),
        ("AccountingStoreJobComment = No", Config { store_flags: Some(vec![]), ..none() }),
        (
            "TaskPlugin = task/cgroup,task/affinity",
            Config { task_plugins: Some(strings(&["task/cgroup", "task/affinity"])), ..none() },
        ),
        ("JobAcctGatherType = (null)\nMinJobAge = 0 sec", Config { min_job_age: Some(0), ..none() }),
        (
            "ClusterName = a\nSlurmctldParameters = ClusterName=b",
            Config { cluster: Some("a".into()), ..none() },
        ),
    ] {
        assert_eq!(good(config, line.as_bytes()), expected, "{line}");
    }
    for (text, expected) in [
        (
            "ClusterName = a\nMinJobAge = long",
            "site:2: rejected: MinJobAge cannot be `long`: MinJobAge = long",
        ),
        (
            "slurm_load_ctl_conf error: no\n",
            "site:1: rejected: not what this command prints: slurm_load_ctl_conf error: no",
        ),
    ] {
        assert_eq!(collect(config, text.as_bytes()).1, [expected], "{text}");
    }
}

const ASSOCIATIONS: &[u8] = b"\
deep|root|||||normal
deep|root|root||||normal
deep|chemistry||root|||normal
deep|chemistry|bob||||normal
deep|physics||root|||normal
deep|physics|ann|||high|high,normal
deep|sub||physics|||normal
deep|sub|bob||gpu||normal
";

#[test]
fn accounts_and_users() {
    let mut found = good(association::associations, ASSOCIATIONS);
    let users = good(
        association::users,
        b"ann|physics|None|physics,sub\nbob|chemistry|None|\nroot|root|Administrator|\n",
    );
    let accounts = good(association::accounts, b"chemistry|\nphysics|ann\nsub|ann\n");
    let ann = User {
        name: "ann".into(),
        default_account: Some("physics".into()),
        admin_level: None,
        coordinates: strings(&["physics", "sub"]),
    };
    assert_eq!(users[0], ann);
    assert_eq!(users[2].admin_level.as_deref(), Some("Administrator"));
    assert_eq!(accounts[0], Account { name: "chemistry".into(), coordinators: vec![] });
    let before = found.clone();
    association::join(&mut found, &users, &accounts);
    let own = |list: &[Association]| {
        list.iter().map(|one| (one.is_default, one.coordinators.clone())).collect::<Vec<_>>()
    };
    assert!(own(&before).iter().all(|one| *one == (None, None)));
    let by = |names: &[&str]| (None, Some(strings(names)));
    let is = |is_default| (Some(is_default), None);
    let expected =
        [(None, None), is(true), by(&[]), is(true), by(&["ann"]), is(true), by(&["ann"]), is(false)];
    assert_eq!(own(&found), expected);
    let sub = Association {
        cluster: "deep".into(),
        account: "sub".into(),
        user: Some("bob".into()),
        partition: Some("gpu".into()),
        qos: strings(&["normal"]),
        ..Association::default()
    };
    assert_eq!(before[7], sub);
    assert_eq!(
        (before[6].parent.as_deref(), before[5].default_qos.as_deref()),
        (Some("physics"), Some("high"))
    );
    assert_eq!(before[5].qos, ["high", "normal"]);
}

#[test]
fn lines_of_another_form_are_rejected() {
    for (text, reason) in [
        ("a|b|c", Reason::FieldCount { found: 3, expected: 7 }),
        ("a|b||||||", Reason::FieldCount { found: 8, expected: 7 }),
        ("|b|||||", Reason::Empty { field: "Cluster" }),
        ("a||||||", Reason::Empty { field: "Account" }),
    ] {
        let (found, problems) =
            collect(association::associations, format!("\n{text}\na|b|||||\n").as_bytes());
        assert_eq!(
            (found.len(), problems),
            (1, vec![format!("site:2: rejected: {reason}: {text}")]),
            "{text}"
        );
    }
    for (fields, expected) in
        [(association::ASSOCIATIONS, 7), (association::USERS, 4), (association::ACCOUNTS, 2)]
    {
        assert_eq!(fields.split(',').count(), expected);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        words in "(NodeName=|PartitionName=|Gres=gpu:|MaxTime=|TRES=|OS=|MinJobAge =|[|,=: \n(]|[0-9a-z]){0,40}",
    ) {
        for text in [&bytes[..], words.as_bytes()] {
            let _ = collect(partitions, text);
            let _ = collect(nodes, text);
            let _ = collect(config, text);
            let _ = collect(association::associations, text);
            let _ = collect(association::users, text);
            let _ = collect(association::accounts, text);
        }
    }
}
