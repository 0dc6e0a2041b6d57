//! Rules that an administrator changes while the server runs.

mod common;

use std::fs;

use common::Server;
use common::cluster::{Cluster, SITE};
use serde_json::Value;
use testkit::eventually;

#[test]
fn a_rule_that_an_administrator_changes_counts_without_a_restart() {
    let cluster = Cluster::start(SITE, &[]);
    let server = &cluster.server;
    let admin = server.token("admin");
    let get = |path: &str, token: &str| -> Value {
        let (_, text) = server.get(path, Some(token)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let site = |cores: u32| {
        format!(
            "{SITE}[[tag]]\nid = 1001\nname = 'site WIDE'\ngroup = 'site'\ncriterion = 'cores >= {cores}'\ndescription = 'Wide.'\n"
        )
    };
    let file = server.data().join("site.toml");
    let version = || {
        let rows = get("/api/v1/tags", &admin)["rows"].clone();
        rows.as_array()
            .unwrap()
            .iter()
            .find(|row| row["tag"] == "site WIDE")
            .map(|row| row["version"].clone())
    };
    assert_eq!(version(), None);
    // Of these two nothing was measured that could come late and have them judged again.
    let told = |number: &str| {
        cluster.send(
            "POST",
            "accounting",
            minicbor::to_vec([cluster.job(number, "otto", "physics")]).unwrap(),
        );
    };
    let is_wide = |number: &str| {
        let rows = get("/api/v1/jobs?all=site%20WIDE&columns=job", &admin)["rows"].clone();
        rows.as_array().is_some_and(|rows| rows.iter().any(|row| row["job"] == number))
    };
    told("6");
    assert!(eventually(|| get("/api/v1/jobs/6/tags", &admin)["is_judged"] == true));
    fs::write(&file, site(2)).unwrap();
    assert!(eventually(|| version() == Some(1.into())), "{}", server.log());
    told("8");
    assert!(eventually(|| is_wide("8")), "{}", server.log());
    assert!(!is_wide("6"), "it was judged before there was the rule");
    // A rule that makes no sense changes nothing, and is said.
    fs::write(&file, site(2).replace("cores >=", "no_such_column >=")).unwrap();
    assert!(eventually(|| server.log().contains("no_such_column")));
    assert_eq!(version(), Some(1.into()));
    fs::write(&file, site(3)).unwrap();
    assert!(eventually(|| version() == Some(2.into())), "{}", server.log());
    let why = get("/api/v1/jobs/8/tags?tag=site%20WIDE", &admin);
    assert_eq!([&why["tags"][0]["version"], &why["tags"][0]["newest_version"]], [&Value::from(1), &2.into()]);
    assert!(is_wide("8"), "the history is judged when somebody asks");
    let begun = Server::agent().post(format!("http://{}/api/v1/tags/run", server.address));
    assert_eq!(begun.header("authorization", format!("Bearer {admin}")).send_empty().unwrap().status(), 200);
    assert!(eventually(|| !is_wide("8")), "{}", server.log());
    assert_eq!(get("/api/v1/jobs/8/tags?tag=site%20WIDE", &admin)["tags"][0]["version"], 2);
    // So does a search, and so does who may do what.
    let search = "[[search]]\nname = 'mine'\ndescription = 'x'\nall = ['site WIDE']\nwhere = 'cores > 1'\n";
    let broken = search.replace("mine", "broken").replace("WIDE", "NARROW");
    fs::write(&file, site(2) + search + &broken).unwrap();
    let asked = |name: &str| server.get(&format!("/api/v1/jobs?search={name}"), Some(&admin)).unwrap().0;
    assert!(eventually(|| asked("mine") == 200), "{}", server.log());
    assert_eq!(asked("broken"), 400);
    assert!(server.log().contains("search `broken`: there is no tag `site NARROW`"));
    let nodes = |user: &str| server.get("/api/v1/nodes", Some(&cluster.token_of(user))).unwrap().0;
    assert_eq!(nodes("otto"), 403);
    fs::write(&file, site(3).replace("support = ['sven']", "support = ['sven', 'otto']")).unwrap();
    assert!(eventually(|| nodes("otto") == 200));
}
