//! What a batch system says of its machine is kept as a whole, and what the site says is put over it.

use record::accounting::TimeLimit;
use record::site::{Association, Config, Node, Partition, SiteData};
use serde_json::{Value, json};
use store::{Limits, Site, Store};

fn site(cluster: &str, partitions: &[&str]) -> SiteData {
    let partition = |name: &&str| Partition {
        name: (*name).into(),
        default_time: Some(60_000_000_000),
        max_time: Some(TimeLimit::Unlimited),
        ..Partition::default()
    };
    let account =
        Association { cluster: cluster.into(), account: "physics".into(), ..Association::default() };
    let user = Association { user: Some("alice".into()), is_default: Some(true), ..account.clone() };
    SiteData {
        cluster: Some(cluster.into()),
        partitions: partitions.iter().map(partition).collect(),
        nodes: vec![Node {
            name: "n1".into(),
            cores: Some(4),
            features: vec!["a".into(), "b".into()],
            ..Node::default()
        }],
        associations: vec![user, Association { coordinators: Some(vec![]), ..account }],
        config: Some(Config {
            version: Some("22.05.8".into()),
            store_flags: Some(vec![]),
            ..Config::default()
        }),
    }
}

fn column(rows: &Value, name: &str) -> Vec<Value> {
    rows.as_array().unwrap().iter().map(|row| row[name].clone()).collect()
}

#[test]
fn the_last_word_on_each_cluster_counts() {
    let dir = tempfile::tempdir().unwrap();
    let own = "[[partition]]\nname = \"gpu\"\nhas_gpus = true\ndefault_time_limit_seconds = 90\n\
        [[partition]]\nname = \"gone\"\n[[nodes]]\nnames = \"n*\"\npeak_flops = 2e12\ncores = 8\n";
    let store = Store::open(dir.path(), &Limits { memory_mb: 200, threads: 1 }).unwrap();
    let store = store.with_site(Site::parse(own).unwrap());
    let reader = store.reader().unwrap();
    let nothing = json!({"clusters": [], "partitions": [], "nodes": [], "associations": [], "unmatched": []});
    assert_eq!(reader.site(None).unwrap(), nothing);
    let mut writer = store.writer().unwrap();
    for (told, at) in
        [(site("a", &["x", "y"]), 1), (site("b", &["gpu"]), 2), (site("a", &["gpu", "test"]), 3)]
    {
        writer.keep_site(&told, at).unwrap();
    }
    let found = reader.site(None).unwrap();
    assert_eq!(column(&found["clusters"], "cluster"), ["a", "b"]);
    assert_eq!(found["clusters"][0]["store_flags"], json!([]));
    assert_eq!(column(&found["partitions"], "partition"), ["gpu", "test", "gpu"]);
    assert_eq!(column(&found["partitions"], "has_gpus"), [json!(true), Value::Null, json!(true)]);
    assert_eq!(column(&found["partitions"], "default_time_s"), [90.0, 60.0, 90.0]);
    assert_eq!(column(&found["partitions"], "is_unlimited"), [true, true, true]);
    assert_eq!(column(&found["nodes"], "cores"), [8, 8]);
    assert_eq!(column(&found["nodes"], "peak_flops"), [2_000_000_000_000u64; 2]);
    assert_eq!(found["nodes"][0]["features"], json!(["a", "b"]));
    assert_eq!(
        column(&found["associations"], "user"),
        [Value::Null, json!("alice"), Value::Null, json!("alice")]
    );
    assert_eq!(found["associations"][0]["coordinators"], json!([]));
    assert_eq!(found["unmatched"], json!(["there is no partition `gone`"]));
    assert_eq!(column(&reader.site(Some("b")).unwrap()["nodes"], "cluster"), ["b"]);
}
