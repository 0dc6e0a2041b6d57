//! What whoever asks may see. The connection itself hides the rest: in front of each table stands a view of the same name with the rows that
//! may be seen, so no question can forget to ask for less. A table that is not named here cannot be read by those who do not see all.

use duckdb::Connection;
use tags::Space;

use crate::StoreError;
use crate::tags::{REMOVED, SAID, TAGS};

/// What somebody may see.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sight {
    /// Everything: the server itself.
    All,
    /// Everything but what is others' own: administrators.
    Administrator { user: String },
    /// All jobs, but not what people say of them among themselves.
    Support { user: String, member_of: Vec<String> },
    /// Their own jobs, and those of these projects. Whoever is in a project does not see all of its jobs everywhere.
    Own { user: String, projects: Vec<String>, member_of: Vec<String> },
}

impl Sight {
    /// Who it is.
    pub fn user(&self) -> Option<&str> {
        match self {
            Sight::All => None,
            Sight::Administrator { user } | Sight::Support { user, .. } | Sight::Own { user, .. } => {
                Some(user)
            }
        }
    }

    /// Whether they see a tag of this space.
    pub fn sees(&self, space: &Space) -> bool {
        match (self, space) {
            (Sight::All, _) | (_, Space::General) | (Sight::Administrator { .. }, Space::Project(_)) => true,
            (_, Space::Personal(user)) => self.user() == Some(user),
            (Sight::Support { member_of, .. } | Sight::Own { member_of, .. }, Space::Project(name)) => {
                member_of.contains(name)
            }
        }
    }
}

/// Whose the rows of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// Of nobody: of machines, of rules, or what only rows of others lead to.
    Nobodys,
    /// Jobs as they are accounted for.
    Jobs,
    /// Of what a user ran at some time, in a job or not. The columns: when it began, and until when it is known.
    Users(&'static str, &'static str),
    /// Of a reading of another table.
    Readings(&'static str),
    /// With the id of a job.
    Ids(&'static str),
    /// Of a job, or of a node where there is none.
    Measured,
    /// Variables of processes.
    Environments,
    /// What people said of jobs.
    Assignments,
    /// What people think of what rules say.
    Opinions,
    /// Notes on jobs and programs.
    Notes,
    /// Files; what is known of their content is seen by those who may read it.
    Files,
    /// Users who were contacted, because of a job or not.
    Contacts,
    /// What happened in these cases.
    ContactEntries,
    /// Tags that somebody proposes.
    Proposals,
    /// Tags, each of a space.
    Tags,
    /// What somebody has for themselves.
    Personal,
    /// Who is in which project.
    Associations,
    /// The store's own.
    Hidden,
}

/// Every table there is, as a test sees.
const TABLES: &[(&str, Rows)] = &[
    ("accounting", Rows::Jobs),
    ("process", Rows::Users("start_ns", "coalesce(t.end_ns, t.start_ns)")),
    // It may run still.
    ("running", Rows::Users("start_ns", "9223372036854775807")),
    ("job", Rows::Users("start_ns", "coalesce(t.end_ns, t.heard_ns, t.start_ns)")),
    ("job_sample", Rows::Users("time_ns", "t.time_ns")),
    ("job_coarse", Rows::Users("time_ns", "t.time_ns")),
    ("command_sample", Rows::Readings("job_sample")),
    ("card_sample", Rows::Readings("job_sample")),
    ("command_coarse", Rows::Readings("job_coarse")),
    ("card_coarse", Rows::Readings("job_coarse")),
    ("assignment", Rows::Assignments),
    ("assignment_refused", Rows::Ids("id")),
    ("note", Rows::Notes),
    ("contact", Rows::Contacts),
    ("contact_entry", Rows::ContactEntries),
    ("accounting_step", Rows::Ids("id")),
    ("accounting_node", Rows::Ids("id")),
    ("job_measure", Rows::Ids("id")),
    ("measure", Rows::Measured),
    ("environment", Rows::Environments),
    ("site_association", Rows::Associations),
    ("file", Rows::Files),
    ("object", Rows::Nobodys),
    ("object_list", Rows::Nobodys),
    ("module_list", Rows::Nobodys),
    ("node_list", Rows::Nobodys),
    ("node_sample", Rows::Nobodys),
    ("node_coarse", Rows::Nobodys),
    ("node_hardware", Rows::Nobodys),
    ("node_now", Rows::Nobodys),
    ("partition_now", Rows::Nobodys),
    ("site_cluster", Rows::Nobodys),
    ("cluster_description", Rows::Nobodys),
    ("site_node", Rows::Nobodys),
    ("site_partition", Rows::Nobodys),
    ("tag", Rows::Tags),
    ("own_tag", Rows::Tags),
    ("opinion", Rows::Opinions),
    ("saved_search", Rows::Personal),
    ("tag_version", Rows::Nobodys),
    ("proposal", Rows::Proposals),
    ("approved_tag", Rows::Nobodys),
    ("rule_set", Rows::Nobodys),
    ("software_tag", Rows::Nobodys),
    ("account_moved", Rows::Hidden),
    ("tag_due", Rows::Hidden),
    ("tag_run", Rows::Hidden),
    ("gap", Rows::Hidden),
    ("health", Rows::Hidden),
    ("received", Rows::Hidden),
    ("running_ended", Rows::Hidden),
    ("schema_version", Rows::Hidden),
    ("stream", Rows::Hidden),
    ("unknown_entry", Rows::Hidden),
    ("upkeep", Rows::Hidden),
];

/// Agents and batch systems do not agree to the second on when a job began.
const SLACK_NS: i64 = 60_000_000_000;

/// Puts the views in front of the tables, for good: a connection has the sight it was made with.
pub(crate) fn limit(connection: &Connection, sight: &Sight) -> Result<(), StoreError> {
    if *sight == Sight::All {
        return Ok(());
    }
    let database: String = connection.query_row("SELECT current_database()", [], |row| row.get(0))?;
    let views: Vec<String> = TABLES
        .iter()
        .filter_map(|(table, rows)| {
            let (columns, condition) = match (columns(table, *rows, sight, &database), condition(*rows, sight)) {
                (None, None) => return None,
                (columns, condition) => (columns.unwrap_or_default(), condition.unwrap_or("true".to_owned())),
            };
            Some(format!(
                "CREATE TEMP VIEW {table} AS SELECT t.*{columns}, t.rowid AS rowid FROM \"{database}\".main.{table} t \
                 WHERE {condition};"
            ))
        })
        .collect();
    Ok(connection.execute_batch(&views.join("\n"))?)
}

/// Texts of users that patterns are tried on. Short words of the batch system are not worth it.
const TEXTS: [(&str, &[&str]); 3] = [
    (
        "accounting",
        &["name", "comment", "admin_comment", "system_comment", "extra", "submit_line", "work_dir", "stdout"],
    ),
    ("process", &["exe", "argv", "cwd"]),
    ("running", &["exe", "argv", "cwd"]),
];

/// Which columns of `t` are seen otherwise; `None` for none. Whoever sees a job and not what people say of it sees the bits of rules only.
///
/// Of rows that are hidden, long texts are not even there: the database tries a pattern where it reads the table, before or after it looks
/// whose the row is, as it likes. Nothing that is looked for beside the table can stand in a column, so managers do without it for processes.
fn columns(table: &str, rows: Rows, sight: &Sight, database: &str) -> Option<String> {
    match (rows, sight) {
        (Rows::Files, Sight::Own { user, .. }) => return Some(contents(user, database)),
        (Rows::Jobs, Sight::Own { .. }) => {}
        (Rows::Users(..), Sight::Own { projects, .. }) if projects.is_empty() => {}
        (Rows::Jobs, Sight::Support { .. }) => return Some(of_rules()),
        _ => return None,
    }
    let (_, texts) = TEXTS.iter().find(|(of, _)| *of == table)?;
    let seen = condition(rows, sight)?;
    let texts = texts.iter().map(|text| format!("CASE WHEN {seen} THEN t.{text} END AS {text}"));
    // What an owner has removed stays removed for all who see the job as theirs or their project's.
    let removed = REMOVED.iter().filter(|_| rows == Rows::Jobs).map(|word| format!("0::UBIGINT AS {word}"));
    Some(format!(" REPLACE ({})", texts.chain(removed).collect::<Vec<_>>().join(", ")))
}

fn of_rules() -> String {
    let of_rules = TAGS
        .into_iter()
        .zip(SAID)
        .map(|(tags, said)| format!("t.{tags} & ~t.{said} AS {tags}, 0::UBIGINT AS {said}"));
    format!(" REPLACE ({})", of_rules.collect::<Vec<_>>().join(", "))
}

/// The agent reads files that their users may not: a program that may only be executed, or a library of a program with
/// privileges. What it read of one is for those who could read it themselves: everybody, if the mode says so, or its owner. Who is in
/// a file's group is not known here.
fn contents(user: &str, database: &str) -> String {
    let user = text(user);
    let of = |table| {
        format!(
            "(SELECT s.uid FROM \"{database}\".main.{table} s WHERE s.\"user\" = {user} AND s.uid IS NOT NULL LIMIT 1)"
        )
    };
    let own = format!("coalesce({}, {})", of("process"), of("running"));
    let is_readable = format!("coalesce((t.mode & 4) <> 0, false) OR coalesce(t.uid = {own}, false)");
    let column = |name| format!("CASE WHEN {is_readable} THEN t.{name} END AS {name}");
    let columns = ["hash", "unhashed", "build_id", "signature"].map(column);
    format!(" REPLACE ({})", columns.join(", "))
}

/// Which rows of `t` are seen; `None` for all of them.
fn condition(rows: Rows, sight: &Sight) -> Option<String> {
    match rows {
        Rows::Assignments => return assignments(sight),
        Rows::Tags => return tags(sight),
        Rows::Opinions => return opinions(sight),
        Rows::Personal => return Some(format!("t.\"by\" = {}", text(sight.user()?))),
        _ => {}
    }
    let Sight::Own { user, projects, .. } = sight else { return None };
    let user = text(user);
    let of_projects =
        (!projects.is_empty()).then(|| projects.iter().map(|name| text(name)).collect::<Vec<_>>().join(", "));
    Some(match rows {
        Rows::Nobodys | Rows::Files | Rows::Assignments | Rows::Opinions | Rows::Tags | Rows::Personal => {
            return None;
        }
        Rows::Hidden => "false".to_owned(),
        Rows::Jobs => match of_projects {
            None => format!("t.\"user\" = {user}"),
            Some(projects) => format!("(t.\"user\" = {user} OR t.project IN ({projects}))"),
        },
        Rows::Users(from, until) => match of_projects {
            None => format!("t.\"user\" = {user}"),
            // Whoever is in no job has it with no project.
            Some(_) => format!(
                "(t.\"user\" = {user} OR t.job IS NOT NULL AND EXISTS (SELECT 1 FROM temp.main.accounting s \
                   WHERE s.job = t.job AND s.\"user\" = t.\"user\" AND t.{from} <= coalesce(s.end_ns, 9223372036854775807) \
                   AND {until} >= s.start_ns - {SLACK_NS}))"
            ),
        },
        Rows::Readings(of) => format!(
            "EXISTS (SELECT 1 FROM temp.main.{of} s WHERE s.host = t.host AND s.time_ns = t.time_ns \
               AND s.job IS NOT DISTINCT FROM t.job AND s.session IS NOT DISTINCT FROM t.session)"
        ),
        Rows::Ids(column) => format!("t.{column} IN (SELECT s.id FROM temp.main.accounting s)"),
        Rows::Measured => "(t.job IS NULL OR t.job IN (SELECT s.id FROM temp.main.accounting s))".to_owned(),
        Rows::Environments => {
            "t.id IN (SELECT s.environment FROM temp.main.process s WHERE s.environment IS NOT NULL \
               UNION ALL SELECT s.environment FROM temp.main.running s WHERE s.environment IS NOT NULL)"
                .to_owned()
        }
        Rows::Notes => format!("(t.\"by\" = {user} OR t.id IN (SELECT s.id FROM temp.main.accounting s))"),
        Rows::Contacts => {
            format!("(t.\"user\" = {user} OR t.id IN (SELECT s.id FROM temp.main.accounting s))")
        }
        Rows::ContactEntries => "t.number IN (SELECT s.number FROM temp.main.contact s)".to_owned(),
        Rows::Proposals => format!("t.\"by\" = {user}"),
        Rows::Associations => match of_projects {
            None => format!("t.\"user\" = {user}"),
            Some(projects) => format!("(t.\"user\" = {user} OR t.account IN ({projects}))"),
        },
    })
}

/// What somebody says of a job is seen by those who see the job because it is theirs or their project's, and by administrators; what is personal
/// by nobody else.
fn assignments(sight: &Sight) -> Option<String> {
    let own = text(sight.user()?);
    Some(match sight {
        Sight::All => return None,
        Sight::Administrator { .. } => format!("(NOT t.is_personal OR t.\"by\" = {own})"),
        Sight::Support { .. } => format!("t.\"by\" = {own}"),
        Sight::Own { .. } => format!(
            "(NOT t.is_personal OR t.\"by\" = {own}) AND t.id IN (SELECT s.id FROM temp.main.accounting s)"
        ),
    })
}

/// Whether a rule is right is for all who see the job and the tag, whoever keeps the rules above all. What somebody does not want to be shown is
/// their own affair.
fn opinions(sight: &Sight) -> Option<String> {
    let own = text(sight.user()?);
    Some(format!(
        "(t.word <> 'hide' OR t.\"by\" = {own}) AND t.tag IN (SELECT s.id FROM temp.main.tag s){}",
        match sight {
            Sight::Own { .. } => " AND t.id IN (SELECT s.id FROM temp.main.accounting s)",
            _ => "",
        }
    ))
}

/// Tags of the spaces that somebody sees: see [`Sight::sees`].
fn tags(sight: &Sight) -> Option<String> {
    let own = Space::Personal(sight.user()?.to_owned());
    let mut seen = vec![own];
    match sight {
        Sight::All => return None,
        Sight::Administrator { .. } => {}
        Sight::Support { member_of, .. } | Sight::Own { member_of, .. } => {
            seen.extend(member_of.iter().cloned().map(Space::Project));
        }
    }
    let seen: Vec<String> = seen.iter().map(|space| text(&space.to_string())).collect();
    let is_seen = format!("t.space IS NULL OR t.space IN ({})", seen.join(", "));
    Some(match sight {
        Sight::Administrator { .. } => format!("({is_seen} OR starts_with(t.space, 'project:'))"),
        _ => format!("({is_seen})"),
    })
}

/// As text of a query.
fn text(name: &str) -> String {
    format!("'{}'", name.replace('\0', "").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(user: &str, projects: &[&str]) -> Sight {
        let projects: Vec<String> = projects.iter().map(|name| (*name).to_owned()).collect();
        Sight::Own { user: user.into(), member_of: projects.clone(), projects }
    }

    fn store() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        connection
    }

    #[test]
    fn every_table_is_named() {
        let connection = store();
        let mut query = connection
            .prepare("SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY table_name")
            .unwrap();
        let there: Vec<String> = query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let mut named: Vec<&str> = TABLES.iter().map(|(table, _)| *table).collect();
        named.sort_unstable();
        assert_eq!(there, named, "whose are the rows of a new table?");
    }

    /// The words of a query and those of the program say the same.
    #[test]
    fn tags_are_seen_by_those_of_their_space() {
        let connection = store();
        let spaces = ["general", "project:physics", "project:o'x", "personal:anna", "personal:x"]
            .map(|space| Space::try_from(space.to_owned()).unwrap());
        for (id, space) in spaces.iter().enumerate() {
            let space = (*space != Space::General).then(|| space.to_string());
            let sql = "INSERT INTO tag VALUES (?, 'n', NULL, 0, ?, true)";
            connection.execute(sql, duckdb::params![id, space]).unwrap();
        }
        for (sight, ids) in [
            (Sight::All, vec![0, 1, 2, 3, 4]),
            (Sight::Administrator { user: "ada".into() }, vec![0, 1, 2]),
            (Sight::Administrator { user: "anna".into() }, vec![0, 1, 2, 3]),
            (Sight::Support { user: "sven".into(), member_of: vec![] }, vec![0]),
            (Sight::Support { user: "sven".into(), member_of: vec!["physics".into()] }, vec![0, 1]),
            (own("anna", &["o'x"]), vec![0, 2, 3]),
            (own("anna' OR true --", &["x') OR true --"]), vec![0]),
        ] {
            let reader = connection.try_clone().unwrap();
            limit(&reader, &sight).unwrap();
            let mut query = reader.prepare("SELECT id FROM tag ORDER BY id").unwrap();
            let seen: Vec<usize> =
                query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
            assert_eq!(seen, ids, "{sight:?}");
            let sees: Vec<usize> = (0..spaces.len()).filter(|at| sight.sees(&spaces[*at])).collect();
            assert_eq!(sees, ids, "{sight:?}");
        }
    }

    #[test]
    fn others_are_not_there() {
        let connection = store();
        connection
            .execute_batch(
                "INSERT INTO accounting BY NAME SELECT * FROM (VALUES \
                   (1, '1', '1', 'anna', 'physics', 100, 200), (2, '2', '2', 'otto', 'physics', 100, 200), \
                   (3, '3', '3', 'eve', 'secret', 100, 200), (4, '4', '4', NULL, NULL, 100, 200), \
                   (5, '2', '2', 'eve', 'secret', 900000000000, 900000000200)) \
                   t(id, job, shown, \"user\", project, start_ns, end_ns); \
                 INSERT INTO job BY NAME SELECT job, \"user\", start_ns, end_ns, 1 AS nodes, false AS is_shared, 1 AS readings, \
                   0 AS computed_ns FROM accounting; \
                 INSERT INTO job_measure BY NAME SELECT id, 'm' AS metric, true AS is_ours, true AS is_told, 1 AS nodes, 1 AS readings \
                   FROM accounting; \
                 INSERT INTO upkeep BY NAME SELECT 'x' AS name, 1 AS value",
            )
            .unwrap();
        let seen = |sight: &Sight, sql: &str| -> Vec<String> {
            let reader = connection.try_clone().unwrap();
            limit(&reader, sight).unwrap();
            let mut query = reader.prepare(sql).unwrap();
            query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let ids = "SELECT id::VARCHAR FROM accounting ORDER BY id";
        let measured = "SELECT \"user\" || rowid FROM job ORDER BY rowid";
        let beside = "SELECT id::VARCHAR FROM job_measure ORDER BY id";
        for (sight, jobs, rows) in [
            (own("anna", &[]), vec!["1"], vec!["anna0"]),
            (own("anna", &["physics"]), vec!["1", "2"], vec!["anna0", "otto1"]),
            (own("eve", &["physics"]), vec!["1", "2", "3", "5"], vec!["anna0", "otto1", "eve2", "eve4"]),
            (own("x' OR true --", &[]), vec![], vec![]),
            (own("", &["' OR 'a' = 'a"]), vec![], vec![]),
        ] {
            assert_eq!(seen(&sight, ids), jobs, "{sight:?}");
            assert_eq!(seen(&sight, beside), jobs, "{sight:?}");
            assert_eq!(seen(&sight, measured), rows, "{sight:?}");
            assert_eq!(seen(&sight, "SELECT name FROM upkeep"), Vec::<String>::new(), "{sight:?}");
        }
        let support = Sight::Support { user: "sven".into(), member_of: vec![] };
        for sight in [Sight::All, support] {
            assert_eq!(seen(&sight, ids).len(), 5, "{sight:?}");
        }
    }

    /// Whatever looks at a text before the database has looked whose it is would end the query: these are no numbers.
    #[test]
    fn texts_of_hidden_rows_are_gone_before_a_condition_looks_at_them() {
        let connection = store();
        let (accounting, process) = (TEXTS[0].1, TEXTS[1].1);
        let all = |texts: &[&str], text: &str| -> String {
            texts.iter().map(|column| format!(", {text} AS {column}")).collect()
        };
        for (user, count, text) in [("anna", 3, "'7'"), ("eve", 5000, "'no number'")] {
            connection
                .execute_batch(&format!(
                    "INSERT INTO accounting BY NAME SELECT {count} + i AS id, i AS job, i AS shown, '{user}' AS \"user\"{} \
                       FROM range({count}) t(i); \
                     INSERT INTO process BY NAME SELECT '{user}' AS \"user\", {count} AS stream, i AS number, 'h' AS host, 1 AS pid, \
                       1 AS process_start_ns, 1 AS exec, 1 AS start_ns, 1 AS count, 0 AS source, 0 AS objects_cut, \
                       'exit' AS ended_by, false AS exe_deleted, false AS argv_cut{} FROM range({count}) t(i);",
                    all(accounting, text),
                    all(process, text),
                ))
                .unwrap();
        }
        let counted = |sight: &Sight, table: &str, column: &str| -> duckdb::Result<u64> {
            let reader = connection.try_clone().unwrap();
            limit(&reader, sight).unwrap();
            let sql = format!("SELECT count(*) FROM {table} WHERE CAST({column} AS INTEGER) = 7");
            reader.query_row(&sql, [], |row| row.get(0))
        };
        let member = own("anna", &["physics"]);
        let reads = [(own("anna", &[]), "accounting"), (member, "accounting"), (own("anna", &[]), "process")];
        for (sight, table) in &reads {
            for column in if *table == "process" { process } else { accounting } {
                assert_eq!(counted(sight, table, column).unwrap(), 3, "{table}.{column}, {sight:?}");
                assert!(
                    counted(&Sight::All, table, column).is_err(),
                    "{table}.{column}: the texts are no numbers"
                );
            }
        }
    }

    /// What an agent with all rights has read is not for everyone who ran the program.
    #[test]
    fn contents_are_for_those_who_may_read_the_file() {
        let connection = store();
        connection
            .execute_batch(
                "INSERT INTO file BY NAME SELECT * FROM (VALUES (1, 0, 493), (2, 0, 457), (3, 7, 448), (4, 0, 488), \
                   (5, 7, NULL), (6, NULL, 292), (7, NULL, NULL)) t(id, uid, mode), \
                   (SELECT '/f' AS path, 1 AS size, 'h' AS hash, 'b' AS build_id, 's' AS signature); \
                 INSERT INTO process BY NAME SELECT 'anna' AS \"user\", 7 AS uid, 1 AS stream, 1 AS number, 'h' AS host, 1 AS pid, \
                   1 AS process_start_ns, 1 AS exec, 1 AS start_ns, 1 AS count, 0 AS source, 0 AS objects_cut, 'exit' AS ended_by, \
                   false AS exe_deleted, false AS argv_cut",
            )
            .unwrap();
        let seen = |sight: &Sight, column: &str| -> Vec<u64> {
            let reader = connection.try_clone().unwrap();
            limit(&reader, sight).unwrap();
            let sql = format!("SELECT id FROM file WHERE {column} IS NOT NULL ORDER BY id");
            let mut query = reader.prepare(&sql).unwrap();
            query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let support = Sight::Support { user: "sven".into(), member_of: vec![] };
        let administrator = Sight::Administrator { user: "ada".into() };
        for column in ["hash", "build_id", "signature"] {
            assert_eq!(seen(&own("anna", &[]), column), [1, 3, 5, 6], "the owner");
            assert_eq!(seen(&own("otto", &[]), column), [1, 6], "somebody else");
            assert_eq!(seen(&own("x' OR true --", &[]), column), [1, 6], "nobody");
            assert_eq!(seen(&support, column).len(), 7);
            assert_eq!(seen(&administrator, column).len(), 7);
        }
        assert_eq!(seen(&own("otto", &[]), "path").len(), 7);
    }
}
