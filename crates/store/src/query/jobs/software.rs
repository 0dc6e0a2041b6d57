//! What conditions may ask about the programs of a job, the libraries they loaded and the variables they had. Of a job none of whose
//! programs was seen nobody knows; one that is seen to run something else does not run this.

use condition::like::Pattern;
use condition::{Predicate, Sql, Value};

use super::same_cluster;
use crate::query::running::RUNS;

/// The programs of a job, in its time: a number that is given again is another job's. Nobody calls their job as a session is called and
/// has its programs.
pub(crate) const OF_JOB: &str = concat!(
    "q.job = c.job AND (q.session IS NULL) = (c.kind = 0) AND ",
    same_cluster!("q"),
    " AND q.start_ns <= coalesce(c.end_ns, 9223372036854775807) AND coalesce(q.end_ns, q.start_ns) >= c.start_ns - 60000000000"
);

/// Each variable of these environments, as `NAME=value`.
pub(crate) fn variables(ids: &str) -> String {
    format!(
        "(SELECT id, unnest(from_json(variables, '[\"VARCHAR\"]')) AS variable FROM environment WHERE id IN ({ids}))"
    )
}

pub(super) fn predicates() -> [Predicate; 3] {
    [
        Predicate {
            name: "uses",
            meaning: "whether a program of the job loaded a library of this name, of this path if there is a / in it, or with this build-id or content hash",
            sql: uses,
        },
        Predicate {
            name: "runs",
            meaning: "whether the job ran a program of this name, of this path if there is a / in it, or with this build-id or content hash",
            sql: runs,
        },
        Predicate {
            name: "sets",
            meaning: "whether a program of the job had a variable like this, of those that are kept: sets('OMP_NUM_THREADS=1'), sets('NCCL_DEBUG=*')",
            sql: sets,
        },
    ]
}

/// Unknown where no program was seen.
fn known(sql: String, values: Vec<Value>) -> Sql {
    let text = format!("(CASE WHEN EXISTS (SELECT 1 FROM {RUNS} q WHERE {OF_JOB}) THEN EXISTS ({sql}) END)");
    Sql { text, values }
}

/// The pattern is tried only on what processes loaded that whoever asks may see.
fn uses(pattern: &str) -> Sql {
    let fits = fits(&OBJECT, pattern);
    let sql = format!(
        "SELECT 1 FROM (SELECT job, session, cluster, start_ns, end_ns, unnest([objects, late_objects]) AS list FROM {RUNS}) q \
         WHERE {OF_JOB} AND q.list IN (SELECT l.list FROM object_list l JOIN object o ON o.id = l.object WHERE {})",
        fits.text
    );
    known(sql, fits.values)
}

fn runs(pattern: &str) -> Sql {
    let fits = fits(&PROGRAM, pattern);
    known(format!("SELECT 1 FROM {RUNS} q WHERE {OF_JOB} AND {}", fits.text), fits.values)
}

fn sets(pattern: &str) -> Sql {
    let fits = Sql::of_pattern("v.variable", &Pattern::of_glob(pattern));
    let text = format!(
        "(CASE WHEN EXISTS (SELECT 1 FROM {RUNS} q WHERE {OF_JOB} AND q.environment IS NOT NULL) THEN EXISTS ( \
           SELECT 1 FROM {} v WHERE {}) END)",
        variables(&format!("SELECT q.environment FROM {RUNS} q WHERE {OF_JOB}")),
        fits.text
    );
    Sql { text, ..fits }
}

/// What software is known by: name, path, build-id, and the file.
pub(crate) struct Known {
    pub name: &'static str,
    pub path: &'static str,
    pub build_id: &'static str,
    pub file: &'static str,
}

const PROGRAM: Known =
    Known { name: "parse_filename(q.exe)", path: "q.exe", build_id: "NULL", file: "q.exe_file" };
const OBJECT: Known = Known { name: "o.name", path: "o.path", build_id: "o.build_id", file: "o.file" };

/// Build-ids have eight bytes and more, content hashes 32.
const SHORTEST: usize = 16;

/// By name, by path as well if there is a `/` in the pattern; what looks like a build-id or a hash may be one.
pub(crate) fn fits(known: &Known, pattern: &str) -> Sql {
    let Known { name, path, build_id, file } = known;
    let glob = Pattern::of_glob(pattern);
    let mut by = Sql::of_pattern(name, &glob);
    if pattern.contains('/') {
        let by_path = Sql::of_pattern(path, &glob);
        by.text = format!("({} OR {})", by.text, by_path.text);
        by.values.extend(by_path.values);
    } else if pattern.len() >= SHORTEST && pattern.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let exactly = "CAST(? AS VARCHAR)";
        by.text = format!(
            "({} OR {build_id} = {exactly} OR {file} IN (SELECT f.id FROM file f WHERE f.hash = {exactly} OR f.build_id = {exactly}))",
            by.text
        );
        by.values.extend(std::iter::repeat_n(Value::Text(pattern.to_owned()), 3));
    }
    by
}
