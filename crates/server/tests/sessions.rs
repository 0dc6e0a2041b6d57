//! Sessions of people beside the jobs of a batch system: who finds them, and who may speak of them.

mod common;

use common::batch;
use common::cluster::{Cluster, SECOND, SITE};
use record::entry::Entry;
use record::metric::id;
use record::reading::{JobReading, Reading, Values};
use testkit::wait_until;

const OTTOS: &str = "sid-4711-1f00.0badcafe@n1";
const ZORAS: &str = "session-3.0badcafe@n1";

/// Otto and Zora have logged in to a node, and left it again; there is a service, too.
fn with_sessions(options: &[&str]) -> Cluster {
    let cluster = Cluster::start(SITE, options);
    let session = |name: &str, user: &str, uid: u32| {
        let mut values = Values::default();
        values.put(id::CPU, Some(SECOND));
        JobReading {
            session: Some(name.into()),
            user: Some(user.into()),
            uid: Some(uid),
            start: cluster.now - 20 * SECOND,
            end: Some(cluster.now - SECOND),
            every: 10 * SECOND,
            values,
            ..JobReading::default()
        }
    };
    let jobs = vec![
        session(OTTOS, "otto", 1000),
        session(ZORAS, "zora", 1001),
        session("cron.0badcafe@n1", "root", 0),
    ];
    let reading = Reading { time: cluster.now, host: "n1".into(), jobs, ..Reading::default() };
    let entries = [Entry::Reading(Box::new(reading))];
    let answer = cluster.server.post(&batch("n1", 9, &entries), &cluster.server.token("ingest"), &[]);
    assert_eq!(answer.0, 200, "{}", answer.1);
    wait_until("both sessions", || cluster.found("ada", "kind=session").len() == 2);
    cluster
}

#[test]
fn sessions_are_found_by_those_who_see_them() {
    let cluster = with_sessions(&[]);
    for (user, query, expected) in [
        // A batch system has told of jobs, so jobs are meant.
        ("ada", "", vec!["424242", "7"]),
        ("ada", "kind=job", vec!["424242", "7"]),
        ("ada", "kind=session", vec![ZORAS, OTTOS]),
        ("ada", "kind=all", vec!["424242", "7", ZORAS, OTTOS]),
        ("sven", "kind=session", vec![ZORAS, OTTOS]),
        ("otto", "kind=all", vec!["7", OTTOS]),
        ("otto", "where=kind%20%3D%20'session'", vec![OTTOS]),
        ("zora", "kind=session", vec![ZORAS]),
        // She manages the project of Otto's job; his session belongs to none.
        ("pia", "kind=all", vec!["7"]),
        ("eve", "kind=all", vec![]),
        ("otto", "kind=session&node=n1", vec![OTTOS]),
        ("otto", "kind=session&node=n*", vec![OTTOS]),
    ] {
        let mut found = cluster.found(user, query);
        found.sort();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(found, expected, "{user} {query}");
        let count = cluster.get(user, &format!("jobs?count=true&{query}"));
        assert_eq!(count["count"], expected.len(), "{user} {query}");
    }
    let groups = cluster.get("ada", "jobs?group_by=kind&sort=kind");
    let groups = groups["rows"].as_array().unwrap();
    let groups: Vec<_> = groups.iter().map(|row| (row["kind"].as_str(), row["jobs"].as_u64())).collect();
    assert_eq!(groups, [(Some("job"), Some(2)), (Some("session"), Some(2))]);
    for (query, said) in [
        ("kind=sesion", "there is no kind `sesion` of jobs, but job, session, all; is it `session`?"),
        ("kind=", "there is no kind ``"),
        ("where=kind%20%3D%20'jbo'", "job"),
    ] {
        let (status, text) =
            cluster.server.get(&format!("/api/v1/jobs?{query}"), Some(&cluster.token_of("otto"))).unwrap();
        assert!(status == 400 && text.contains(said), "{query}: {text}");
    }
    // Their programs and what they used are seen as before.
    for (user, status) in [("otto", 200), ("ada", 200), ("pia", 404), ("eve", 404)] {
        let answer =
            cluster.server.get(&format!("/api/v1/jobs/{OTTOS}"), Some(&cluster.token_of(user))).unwrap();
        assert_eq!(answer.0, status, "{user}: {}", answer.1);
    }
}

#[test]
fn sessions_are_spoken_of_as_jobs_are() {
    let cluster = with_sessions(&[]);
    let iterative = "job_behavior ITERATIVE";
    let note = format!(r#"{{"job": "{OTTOS}", "text": "a mesh of two million cells"}}"#);
    let case = format!(r#"{{"job": "{OTTOS}", "reason": "holds the GPUs"}}"#);
    let unknown = format!("nothing is known of job {OTTOS}");
    for (user, status, said) in
        [("otto", 200, "is_new"), ("ada", 200, "is_new"), ("pia", 404, &*unknown), ("eve", 404, &unknown)]
    {
        let (is, text) = cluster.say(user, OTTOS, iterative, "");
        assert!(is == status && text.contains(said), "{user}: {is} {text}");
        let path = format!("/api/v1/jobs/{OTTOS}/tags");
        let (is, text) = cluster.server.get(&path, Some(&cluster.token_of(user))).unwrap();
        assert_eq!(is, status, "{user}: {text}");
    }
    for (user, path, body, status) in [
        ("otto", "notes", &note, 200),
        ("sven", "notes", &note, 200),
        ("pia", "notes", &note, 404),
        ("eve", "notes", &note, 404),
        ("otto", "cases", &case, 403),
        ("sven", "cases", &case, 200),
        (
            "otto",
            "searches",
            &format!(r#"{{"name": "own", "all": ["{iterative}"], "where": "kind = 'session'"}}"#),
            200,
        ),
    ] {
        let (is, text) = cluster.change(user, "POST", path, body);
        assert_eq!(is, status, "{user} {path}: {text}");
    }
    let texts = |user: &str, path: &str, key: &str| -> Vec<String> {
        let answer = cluster.get(user, &format!("{path}?job={OTTOS}"));
        answer["rows"].as_array().unwrap().iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts("otto", "notes", "text").len(), 2);
    assert_eq!(texts("eve", "notes", "text").len(), 0);
    assert_eq!(cluster.found("otto", "search=own"), [OTTOS]);
    assert_eq!(cluster.found("otto", "kind=session&all=job_behavior%20ITERATIVE"), [OTTOS]);
    assert_eq!(cluster.found("zora", "kind=session&all=job_behavior%20ITERATIVE"), [""; 0]);
    wait_until("what rules decided of both sessions", || {
        cluster.found("sven", "kind=session&all=job_nnodes%20SINGLE").len() == 2
    });
    // Support does not see what people have set.
    assert_eq!(cluster.found("sven", "kind=session&all=job_behavior%20ITERATIVE"), [""; 0]);
}
