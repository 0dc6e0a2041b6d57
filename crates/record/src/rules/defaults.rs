//! The rules that hold where a site says nothing else.

/// Variables worth keeping: they decide how a program runs, and hold no secrets by their nature.
pub const ENV: &[&str] = &[
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_BIND_NOW",
    "OMP_*",
    "GOMP_*",
    "KMP_*",
    "MKL_*",
    "OPENBLAS_*",
    "BLIS_*",
    "GOTO_NUM_THREADS",
    "NUMEXPR_*",
    "NUMBA_NUM_THREADS",
    "JULIA_NUM_THREADS",
    "MALLOC_*",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "NCCL_*",
    "I_MPI_*",
    "OMPI_MCA_*",
    "MPICH_*",
    "MV2_*",
    "UCX_*",
    "FI_*",
    "PSM2_*",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "R_LIBS*",
    "JULIA_DEPOT_PATH",
    "SLURM_JOB_NAME",
    "SLURM_NTASKS",
    "SLURM_NNODES",
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPUS_ON_NODE",
    "SLURM_MEM_PER_NODE",
    "SLURM_MEM_PER_CPU",
    "SLURM_GPUS_ON_NODE",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_ACCOUNT",
    "JOBGLASS*",
];

/// What makes a name a secret's. A word counts where it ends at a `-`, `_` or the name's end; words of six
/// letters and more count inside a longer word, too (`PGPASSWORD`), shorter ones only as whole words
/// (`--max-tokens` is not a token).
pub const SECRET: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "token",
    "secret",
    "apikey",
    "api-key",
    "access-key",
    "private-key",
    "secret-key",
    "encryption-key",
    "account-key",
    "subscription-key",
    "credential",
    "credentials",
    "authorization",
    "auth",
    "cookie",
    "signature",
    "sig",
    "bearer",
];

/// Tokens that are recognised wherever they stand.
pub const TOKEN: &[&str] = &[
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "hf_",
    "sk-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "eyJ",
    "npm_",
    "pypi-",
];

/// Options that take a secret only in one program.
pub const OPTION: &[&str] = &[
    "curl -u",
    "curl --user",
    "curl --proxy-user",
    "mysql -p",
    "mysqldump -p",
    "mysqladmin -p",
    "mariadb -p",
    "mariadb-dump -p",
    "sshpass -p",
    "ldapsearch -w",
    "ldapmodify -w",
    "redis-cli -a",
    "openssl -k",
    "openssl -passin",
    "openssl -passout",
    "mongosh -p",
    "mongo -p",
    "7z -p",
];

/// No program is skipped by default.
pub const SKIP_EXE: &[&str] = &[];
/// No user is skipped by default.
pub const SKIP_UID: &[&str] = &[];

pub(super) const LISTS: [&[&str]; 6] = [ENV, SECRET, TOKEN, OPTION, SKIP_EXE, SKIP_UID];

/// The lists above, packed.
pub static TABLE: [u8; super::packed_len(LISTS)] = super::pack(LISTS);
