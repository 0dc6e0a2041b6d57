//! Jobs as their batch system accounts for them, told to a real server.

mod common;

use common::Server;
use record::accounting::{Accounting, JOBS_MAX};
use record::site::Description;
use serde_json::{Value, json};

fn job(number: u64) -> Accounting {
    Accounting {
        job: Some(number.to_string()),
        shown: number.to_string(),
        submit: Some(1_800_000_000_000_000_000),
        ..Accounting::default()
    }
}

fn tell(server: &Server, body: &[u8], token: &str) -> (u16, Value) {
    let agent =
        ureq::Agent::new_with_config(ureq::config::Config::builder().http_status_as_error(false).build());
    let request = agent.post(format!("http://{}/api/v1/accounting", server.address));
    let mut answer = request
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/cbor")
        .send(body)
        .unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(json!(text)))
}

#[test]
fn jobs_are_kept_once_and_what_is_wrong_is_said() {
    let server = Server::start(&[]);
    let (admin, ingest) = (server.token("admin"), server.token("ingest"));
    let jobs: Vec<Accounting> = (0..JOBS_MAX).map(job).collect();
    let body = minicbor::to_vec(&jobs).unwrap();
    assert_eq!(tell(&server, &body, &admin), (200, json!({"new": JOBS_MAX, "replaced": 0, "older": 0})));
    assert_eq!(tell(&server, &body, &admin), (200, json!({"new": 0, "replaced": JOBS_MAX, "older": 0})));
    assert_eq!(tell(&server, &body, &ingest).0, 403);

    // A job that is told twice in a request is there once, with its last word.
    let twice = minicbor::to_vec([job(0), job(JOBS_MAX), job(0)]).unwrap();
    assert_eq!(tell(&server, &twice, &admin), (200, json!({"new": 1, "replaced": 1, "older": 1})));
    assert_eq!(tell(&server, &[0x80], &admin), (200, json!({"new": 0, "replaced": 0, "older": 0})));

    let many = minicbor::to_vec(vec![Accounting::default(); JOBS_MAX as usize + 1]).unwrap();
    let late = minicbor::to_vec([Accounting { end: Some(u64::MAX), ..job(7) }]).unwrap();
    let behind = [minicbor::to_vec([job(7)]).unwrap(), vec![0]].concat();
    for (body, said) in [
        (&b"not CBOR"[..], "no array of jobs"),
        (&[0x9f, 0xff], "says how many"),
        (&body[..1000], "job "),
        (&many, "10001 jobs"),
        (&late, "job 1, 7: a time is out of range"),
        (&behind, "1 bytes behind"),
        (&[0x80, 0x00], "1 bytes behind"),
    ] {
        let (status, answer) = tell(&server, body, &admin);
        assert!(status == 400 && answer.to_string().contains(said), "{said}: {status} {answer}");
    }
    assert!(!server.stop().contains("ERROR"));
}

#[test]
fn a_description_of_a_cluster_is_kept_as_it_is_and_replaced() {
    let server = Server::start(&[]);
    let (admin, ingest) = (server.token("admin"), server.token("ingest"));
    let url = format!("http://{}/api/v1/site/descriptions", server.address);
    let agent =
        ureq::Agent::new_with_config(ureq::config::Config::builder().http_status_as_error(false).build());
    let put = |body: &[u8], token: &str| {
        let request = agent.put(&url).header("authorization", format!("Bearer {token}"));
        request.header("content-type", "application/cbor").send(body).unwrap().status().as_u16()
    };
    let described = || -> Vec<Description> {
        let request = agent.get(&url).header("authorization", format!("Bearer {admin}"));
        minicbor::decode(&request.call().unwrap().body_mut().read_to_vec().unwrap()).unwrap()
    };
    let of = |cluster: &str, text: &str| Description { cluster: cluster.into(), text: text.into() };
    let body = |of: &Description| minicbor::to_vec(of).unwrap();
    assert_eq!(described(), []);
    for (of, token, status) in [
        (of("b", "{}"), &admin, 200),
        (of("a", "{\"x\":  1.50}\n"), &admin, 200),
        (of("b", "{\"y\": 2}"), &admin, 200),
        (of("b", "of somebody else"), &ingest, 403),
    ] {
        assert_eq!(put(&body(&of), token), status, "{of:?}");
    }
    assert_eq!(put(b"not CBOR", &admin), 400);
    assert_eq!(described(), [of("a", "{\"x\":  1.50}\n"), of("b", "{\"y\": 2}")]);
}
