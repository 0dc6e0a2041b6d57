//! What conditions may ask about the programs of a job, the libraries they loaded and the variables they had. Of a job none of whose
//! programs was seen nobody knows; one that is seen to run something else does not run this.

use condition::Predicate;

use super::same_cluster;

/// The programs of a job, in its time: a number that is given again is another job's.
pub(crate) const OF_JOB: &str = concat!(
    "q.job = c.job AND ",
    same_cluster!("q"),
    " AND q.start_ns <= coalesce(c.end_ns, 9223372036854775807) AND coalesce(q.end_ns, q.start_ns) >= c.start_ns - 60000000000"
);

/// The pattern, which is needed more than once.
const PATTERN: &str = "(SELECT CAST(? AS VARCHAR) AS pattern) w";

/// Each variable of these environments, as `NAME=value`.
pub(crate) fn variables(ids: &str) -> String {
    format!(
        "(SELECT id, unnest(from_json(variables, '[\"VARCHAR\"]')) AS variable FROM environment WHERE id IN ({ids}))"
    )
}

pub(super) fn predicates() -> [Predicate; 3] {
    let known = |sql: String| {
        format!("(CASE WHEN EXISTS (SELECT 1 FROM process q WHERE {OF_JOB}) THEN EXISTS ({sql}) END)")
    };
    [
        Predicate {
            name: "uses",
            meaning: "whether a program of the job loaded a library of this name, of this path if there is a / in it, or with this build-id or content hash",
            sql: known(format!(
                "SELECT 1 FROM (SELECT job, cluster, start_ns, end_ns, unnest([objects, late_objects]) AS list FROM process) q \
                 WHERE {OF_JOB} AND q.list IN (SELECT l.list FROM object_list l JOIN object o ON o.id = l.object, {PATTERN} \
                   WHERE {})",
                fits("o.name", "o.path", "o.build_id", "o.file")
            )),
        },
        Predicate {
            name: "runs",
            meaning: "whether the job ran a program of this name, of this path if there is a / in it, or with this build-id or content hash",
            sql: known(format!(
                "SELECT 1 FROM process q, {PATTERN} WHERE {OF_JOB} AND {}",
                fits("parse_filename(q.exe)", "q.exe", "NULL", "q.exe_file")
            )),
        },
        Predicate {
            name: "sets",
            meaning: "whether a program of the job had a variable like this, of those that are kept: sets('OMP_NUM_THREADS=1'), sets('NCCL_DEBUG=*')",
            sql: format!(
                "(CASE WHEN EXISTS (SELECT 1 FROM process q WHERE {OF_JOB} AND q.environment IS NOT NULL) THEN EXISTS ( \
                   SELECT 1 FROM {} v, {PATTERN} WHERE v.variable LIKE w.pattern ESCAPE '\\') END)",
                variables(&format!("SELECT q.environment FROM process q WHERE {OF_JOB}"))
            ),
        },
    ]
}

/// By name, by path if there is a `/` in the pattern, by build-id or by content hash.
fn fits(name: &str, path: &str, build_id: &str, file: &str) -> String {
    format!(
        "({name} LIKE w.pattern ESCAPE '\\' OR contains(w.pattern, '/') AND {path} LIKE w.pattern ESCAPE '\\' \
          OR {build_id} = w.pattern OR {file} IN (SELECT f.id FROM file f WHERE f.hash = w.pattern OR f.build_id = w.pattern))"
    )
}
