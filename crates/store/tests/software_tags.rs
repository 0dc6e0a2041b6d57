//! Tags that are known by what a job ran, loaded or set: each by every name it is known by, by names that are almost those, and of jobs
//! of which nothing was seen.

#[allow(dead_code, reason = "other tests use the rest of it")]
mod common;

use std::collections::BTreeSet;

use common::{SECOND, batch, entry, image, library, list, stream};
use record::accounting::{Accounting, State};
use record::batch::Batch;
use store::jobs::{Page, Tagged, Wanted, Which, column};
use store::tags::{Known, PIECE};
use store::{Accounts, Limits, Store, Writer};

/// What a job has: programs, libraries (with `.so` in the name) and variables (with `=`), with ` + ` between them; and its tags.
type Case = (&'static str, &'static [&'static str]);

const CASES: &[Case] = &[
    ("/opt/intel/mpi/2019/lib/libmpi.so.12", &["job_MPI INTEL"]),
    ("/sw/impi/2019/lib/libmpi.so.12", &["job_MPI INTEL"]),
    ("/sw/oneapi/mpi/2021/lib/libmpi.so.12", &["job_MPI INTEL"]),
    ("/usr/lib/libmpi.so.40", &[]),
    ("/usr/lib/libopen-rte.so.40", &["job_MPI OpenMPI"]),
    ("/usr/lib/libopen-pal.so.80", &["job_MPI OpenMPI"]),
    ("/usr/lib/libopen.so.1", &[]),
    ("/usr/lib/libmpich.so.12", &["job_MPI MPICH"]),
    ("/sw/mpich-4.1/lib/libmpi.so.12", &["job_MPI MPICH"]),
    ("/usr/lib/libmpi_cray.so.12", &["job_MPI CRAY"]),
    ("/usr/lib/libmpi_gnu_91.so.12", &["job_MPI CRAY"]),
    ("/usr/lib/libmpi_intel.so.12", &["job_MPI CRAY"]),
    ("/sw/mvapich2/lib/libmpi.so.12", &["job_MPI MVAPICH"]),
    ("/sw/bin/vasp_std", &["job_sw VASP"]),
    ("/sw/vasp/bin/run", &[]),
    ("/sw/bin/firefly8", &["job_sw FIREFLY"]),
    ("/sw/bin/gmx_mpi", &["job_sw GROMACS"]),
    ("/sw/bin/mdrun_d", &["job_sw GROMACS"]),
    ("/sw/lib/libgromacs.so.8", &["job_sw GROMACS"]),
    ("/sw/bin/my_gmx", &[]),
    ("/sw/bin/lmp_mpi", &["job_sw LAMMPS"]),
    ("/sw/bin/lammps", &["job_sw LAMMPS"]),
    ("/sw/lib/liblammps.so.0", &["job_sw LAMMPS"]),
    ("/usr/bin/python3.11", &["job_sw PYTHON"]),
    ("/usr/bin/ipython", &[]),
    ("/sw/lib/libmkl_core.so.2", &["job_mathlib MKL"]),
    ("/usr/lib/libopenblas.so.0", &["job_mathlib OpenBLAS"]),
    ("/sw/lib/python3/site-packages/numpy.libs/libscipy_openblas64_-56d6093b.so", &["job_mathlib OpenBLAS"]),
    (
        "/sw/lib/python3/site-packages/numpy.libs/libopenblas64_p-r0-15028c96.3.21.so",
        &["job_mathlib OpenBLAS"],
    ),
    ("/sw/lib/python3/site-packages/mkl/libmkl_rt.so.2", &["job_mathlib MKL"]),
    ("/usr/lib/libblas.so.3 + /sw/numpy.libs/libscipy_openblas-c128ec02.so", &["job_mathlib OpenBLAS"]),
    ("/usr/lib/libblas.so.3", &["job_mathlib BLAS REFERENCE"]),
    ("/usr/lib/libblas.so.3 + /usr/lib/libopenblas.so.0", &["job_mathlib OpenBLAS"]),
    ("/usr/lib/libblas.so.3 + /sw/lib/libmkl_core.so.2", &["job_mathlib MKL"]),
    ("/usr/lib/libblas.so.3 + /usr/lib/libblis.so.4", &[]),
    ("/usr/lib/libblas.so.3 + /usr/lib/libatlas.so.3", &[]),
    ("/usr/lib/libfftw3f.so.3", &["job_mathlib FFTW"]),
    ("/usr/lib/libfftw.so.2", &[]),
    ("/usr/lib/libgfortran.so.5", &["job_compiler GNU"]),
    ("/usr/lib/libgomp.so.1", &["job_compiler GNU"]),
    ("/sw/lib/libifcoremt.so.5", &["job_compiler INTEL"]),
    ("/sw/lib/libintlc.so.5", &["job_compiler INTEL"]),
    ("/sw/lib/libiomp5.so", &["job_compiler INTEL"]),
    ("/sw/lib/libnvf.so", &["job_compiler NVIDIA"]),
    ("/sw/lib/libnvc.so", &["job_compiler NVIDIA"]),
    ("/sw/lib/libnvomp.so", &["job_compiler NVIDIA"]),
    ("/usr/lib/libomp.so.5", &["job_compiler LLVM"]),
    ("/usr/lib/libflang.so.1", &["job_compiler LLVM"]),
    ("/usr/lib/libFortranRuntime.so.18", &["job_compiler LLVM"]),
    ("/home/anna/bin/gmx", &["job_sw FROM HOME", "job_sw GROMACS"]),
    ("/home/anna/mdrun", &["job_sw FROM HOME", "job_sw GROMACS"]),
    ("/home/anna/sw/mdrun", &["job_sw FROM HOME", "job_sw GROMACS"]),
    ("/home/anna/bin/lmp", &["job_sw FROM HOME", "job_sw LAMMPS"]),
    ("/home/anna/bin/vasp", &["job_sw FROM HOME", "job_sw VASP"]),
    ("/home/anna/bin/pw.x", &["job_sw FROM HOME"]),
    ("/home/anna/bin/cp2k.psmp", &["job_sw FROM HOME"]),
    ("/home/anna/bin/namd3", &["job_sw FROM HOME"]),
    ("/home/anna/bin/nwchem", &["job_sw FROM HOME"]),
    ("/home/anna/bin/simpleFoam", &["job_sw FROM HOME"]),
    ("/home/anna/miniconda3/bin/python3.12", &["job_sw FROM HOME", "job_sw PYTHON"]),
    ("/home/anna/bin/own", &[]),
    ("CUDA_LAUNCH_BLOCKING=1", &["job_environment DEBUG"]),
    ("CUDA_LAUNCH_BLOCKING=0", &[]),
    ("NCCL_DEBUG=INFO", &["job_environment DEBUG"]),
    ("NCCL_DEBUG=TRACE", &["job_environment DEBUG"]),
    ("NCCL_DEBUG=WARN", &[]),
    ("MALLOC_CHECK_=3", &["job_environment DEBUG"]),
    ("MALLOC_PERTURB_=85", &["job_environment DEBUG"]),
    ("UCX_LOG_LEVEL=debug", &["job_environment DEBUG"]),
    ("UCX_LOG_LEVEL=trace", &["job_environment DEBUG"]),
    ("UCX_LOG_LEVEL=warn", &[]),
    ("MKL_VERBOSE=1", &["job_environment DEBUG"]),
    ("MKL_VERBOSE=2", &["job_environment DEBUG"]),
    ("LD_LIBRARY_PATH=/home/anna/lib:/usr/lib", &["job_environment FROM HOME"]),
    ("LD_LIBRARY_PATH=/usr/lib:/home/anna/lib", &["job_environment FROM HOME"]),
    ("LD_LIBRARY_PATH=/usr/lib:/opt/home/lib", &[]),
    ("PYTHONPATH=/home/anna/py", &["job_environment FROM HOME"]),
    ("PYTHONPATH=/sw/py:/home/anna/py", &["job_environment FROM HOME"]),
    // A value that looks like another variable is none.
    (r#"OMP_PLACES="NCCL_DEBUG=INFO""#, &[]),
];

fn job(number: usize) -> Accounting {
    let start = 1_800_000_000 * SECOND;
    Accounting {
        cluster: Some("tiny".into()),
        job: Some(number.to_string()),
        shown: number.to_string(),
        submit: Some(start),
        start: Some(start),
        end: Some(start + 3600 * SECOND),
        state: Some(State::Failed),
        ..Accounting::default()
    }
}

/// A program of the job that has all of that.
fn run(writer: &mut Writer, number: usize, has: &str) {
    let is_library = |part: &&str| part.contains(".so");
    let is_variable = |part: &&str| part.contains('=');
    let parts: Vec<&str> = has.split(" + ").collect();
    let program = parts.iter().find(|part| !is_library(part) && !is_variable(part));
    let mut image = image(number as u32, program.unwrap_or(&"/sw/bin/own"));
    image.place.job = Some(number.to_string());
    image.env =
        Some(parts.iter().filter(|part| is_variable(part)).map(|part| part.as_bytes().into()).collect());
    image.objects = Some(number as u64);
    let libraries = parts.iter().filter(|part| is_library(part)).map(|path| library(path, None));
    let objects = list(number as u64, libraries.collect());
    let bytes = batch(stream(1), number as u64, &[entry(image)], &[objects]);
    let prepared = store::prepare(&Batch::from_bytes(&bytes).unwrap(), &writer.catalogue()).unwrap();
    writer.apply(vec![prepared], 1).unwrap();
}

fn found(store: &Store, which: &Which) -> BTreeSet<usize> {
    let number = column("job").unwrap().clone();
    let page =
        Page { columns: vec![number.clone()], sort: number, is_ascending: true, limit: None, after: None };
    let rows = store.reader().unwrap().jobs(which, &page).unwrap().rows();
    rows.iter().map(|row| row["job"].as_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn software_is_known_by_every_name_it_is_known_by() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    let mut writer = store.writer().unwrap();
    for (at, (has, _)) in CASES.iter().enumerate() {
        run(&mut writer, at + 1, has);
    }
    // Of the last nothing was seen.
    let jobs: Vec<Accounting> = (1..=CASES.len() + 1).map(job).collect();
    writer.account(&Accounts::of(&jobs).unwrap()).unwrap();
    while !writer.judge_due(PIECE).unwrap().is_last {}
    let declared = store.reader().unwrap().tags();
    let asks =
        |known: &&Known| known.tag.criterion.as_ref().is_some_and(|of| of.questions().next().is_some());
    for known in declared.tags.iter().filter(asks) {
        let name = known.tag.declared.name.as_str();
        let which = |tagged| Which { tagged, ..Which::default() };
        let has =
            found(&store, &which(Tagged { all: vec![Wanted::of(&declared, known)], ..Tagged::default() }));
        let expected: BTreeSet<usize> =
            (1..).zip(CASES).filter(|(_, (_, tags))| tags.contains(&name)).map(|(at, _)| at).collect();
        let of = |jobs: &BTreeSet<usize>| jobs.iter().map(|at| CASES.get(at - 1)).collect::<Vec<_>>();
        assert_eq!(of(&has), of(&expected), "{name}");
        assert!(!has.is_empty(), "{name} has a case");
        let criterion = known.tag.criterion.clone().unwrap();
        for question in criterion.questions() {
            let condition =
                condition::Condition::parse(&question.text, &store::jobs::FIXED.catalogue).unwrap();
            let found = found(&store, &Which { conditions: vec![condition], ..Which::default() });
            assert!(!found.is_empty(), "{name}: nothing has {}", question.text);
        }
        let unknown = format!("({criterion}) is unknown");
        let unknown = condition::Condition::parse(&unknown, &store::jobs::FIXED.catalogue).unwrap();
        let unknown = found(&store, &Which { conditions: vec![unknown], ..Which::default() });
        assert!(unknown.contains(&(CASES.len() + 1)), "{name}: of a job of which nothing was seen");
    }
}

#[test]
fn home_directories_are_where_the_site_says() {
    let dir = tempfile::tempdir().unwrap();
    let site = store::Site::parse("[tags]\nhomes = ['/users', '/data/home']\n").unwrap();
    let store = Store::open(dir.path(), &Limits::default()).unwrap().with_site(site);
    let mut writer = store.writer().unwrap();
    let has = [
        "/users/anna/miniconda3/bin/python3.12",
        "/data/home/anna/gmx",
        "PYTHONPATH=/sw/py:/users/anna/py",
        "/home/anna/gmx",
        "/usershare/anna/gmx",
    ];
    for (at, has) in has.iter().enumerate() {
        run(&mut writer, at + 1, has);
    }
    let jobs: Vec<Accounting> = (1..=has.len()).map(job).collect();
    writer.account(&Accounts::of(&jobs).unwrap()).unwrap();
    while !writer.judge_due(PIECE).unwrap().is_last {}
    let declared = store.reader().unwrap().tags();
    for (tag, jobs) in [("job_sw FROM HOME", vec![1, 2]), ("job_environment FROM HOME", vec![3])] {
        let wanted = Wanted::of(&declared, declared.named(tag).unwrap());
        let which = Which { tagged: Tagged { all: vec![wanted], ..Tagged::default() }, ..Which::default() };
        assert_eq!(found(&store, &which), BTreeSet::from_iter(jobs), "{tag}");
    }
}
