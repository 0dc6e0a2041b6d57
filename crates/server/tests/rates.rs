//! The rates of jobs: who may set them, who is told, and for how long.

mod common;

use common::{Server, batch, gap};
use serde_json::{Value, json};

/// A request of an administrator, or of somebody else.
fn request(server: &Server, method: &str, path: &str, token: &str, jobs: &str, body: &str) -> (u16, Value) {
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("http://{}{path}", server.address))
        .header("authorization", format!("Bearer {token}"))
        .header("jobglass-jobs", jobs)
        .body(body.to_owned())
        .unwrap();
    let config = ureq::Agent::config_builder().http_status_as_error(false).allow_non_standard_methods(true);
    let mut response = config.build().new_agent().run(request).unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

#[test]
fn who_may_and_what() {
    let server = Server::start(&[]);
    let (admin, ingest) = (server.token("admin"), server.token("ingest"));
    let good = r#"{"every_ms":5000,"for_s":60}"#;
    for (what, method, token, job, body, expected) in [
        ("no token", "PUT", "", "1", good, 401),
        ("an agent's token", "PUT", &*ingest, "1", good, 403),
        ("an agent's token", "DELETE", &ingest, "1", "", 403),
        ("an agent's token", "GET", &ingest, "1", "", 403),
        ("nothing", "PUT", &admin, "1", "", 400),
        ("no object", "PUT", &admin, "1", "[]", 400),
        ("too fine", "PUT", &admin, "1", r#"{"every_ms":0,"for_s":60}"#, 400),
        ("too long", "PUT", &admin, "1", r#"{"every_ms":1,"for_s":99999999}"#, 400),
        ("another field", "PUT", &admin, "1", r#"{"every_ms":1,"for_s":60,"x":1}"#, 400),
        ("no group", "PUT", &admin, "1", r#"{"every_ms":1,"for_s":60,"sensors":["x"]}"#, 400),
        ("no job", "PUT", &admin, "a%2Cb", good, 400),
        ("too large", "PUT", &admin, "1", &format!("{good}{}", " ".repeat(20_000)), 413),
        ("all well", "PUT", &admin, "1", good, 200),
        ("all well", "GET", &admin, "1", "", 200),
    ] {
        let (status, answer) = request(&server, method, &format!("/api/v1/jobs/{job}/rate"), token, "", body);
        assert_eq!(status, expected, "{what}: {answer}");
    }
    let node = server.command(&["token", "create", "--host", "n1"]);
    for (what, token, host, expected) in [
        ("no token", "", "n1", 401),
        ("a reader's", &*admin, "n1", 403),
        ("another host's", &node, "n2", 403),
        ("its own", &node, "n1", 200),
    ] {
        let path = format!("/api/v1/wishes?host={host}");
        assert_eq!(request(&server, "GET", &path, token, "1", "").0, expected, "{what}");
    }
}

#[test]
fn agents_are_told_with_every_answer() {
    let mut server = Server::start(&[]);
    let (admin, ingest) = (server.token("admin"), server.token("ingest"));
    let body = r#"{"every_ms":5000,"for_s":3600,"sensors":["ib","cpu"],"who":"root@login"}"#;
    assert_eq!(request(&server, "PUT", "/api/v1/jobs/17/rate", &admin, "", body).0, 200);
    let post = |server: &Server, first, jobs: &str| {
        let (status, answer) =
            server.post(&batch("n1", first, &[gap()]), &ingest, &[("jobglass-jobs", jobs)]);
        assert_eq!(status, 200, "{answer}");
        answer["rates"].clone()
    };
    let told = post(&server, 1, "16,17");
    assert_eq!((&told[0]["job"], &told[0]["every_ms"]), (&json!("17"), &json!(5000)));
    assert_eq!(told[0]["sensors"], json!(["cpu", "ib"]));
    let left = told[0]["left_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    assert_eq!((post(&server, 2, "16"), post(&server, 3, "")), (Value::Null, Value::Null));
    // An agent of before.
    assert_eq!(server.post(&batch("n1", 4, &[gap()]), &ingest, &[]).1["rates"], Value::Null);
    // A server that was killed knows it, too.
    let _ = server.child.kill();
    let _ = server.child.wait();
    let dir = std::mem::replace(&mut server.dir, tempfile::tempdir().unwrap());
    let server = Server::start_in(dir, &[]);
    let (status, wishes) = request(&server, "GET", "/api/v1/wishes?host=n1", &ingest, "17", "");
    assert_eq!((status, &wishes["rates"][0]["job"]), (200, &json!("17")));
    let (_, rates) = request(&server, "GET", "/api/v1/jobs/17/rate", &admin, "", "");
    assert_eq!(
        (&rates["rows"][0]["who"], &rates["rows"][0]["set_by"]),
        (&json!("root@login"), &json!("admin"))
    );
    for removed in [1, 0] {
        let (status, answer) = request(&server, "DELETE", "/api/v1/jobs/17/rate", &admin, "", "");
        assert_eq!((status, answer), (200, json!({"removed": removed})));
    }
    assert_eq!(post(&server, 5, "17"), Value::Null);
}
