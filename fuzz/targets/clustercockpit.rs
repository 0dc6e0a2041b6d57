//! A job of ClusterCockpit's archive, `meta.json` before the first zero byte and `data.json` behind it. What can be read
//! must also be writable, and then say the same.
#![no_main]

use import::clustercockpit::scope::Aggregations;
use import::clustercockpit::write::{data as data_out, meta as meta_out};
use import::clustercockpit::{data, meta};
use libfuzzer_sys::fuzz_target;

const META: &[u8] =
    br#"{"jobId": 1, "cluster": "c", "jobState": "failed", "startTime": 1700000000, "duration": 9}"#;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let aggregations = Aggregations::default();
    for (job, series) in [(first, second), (META, bytes)] {
        let Ok((mut known, _)) = meta::read(job) else { continue };
        let _ = data::read(series, data::DATA_MAX, &aggregations, &mut known);
        let (groups, _) = data_out::groups(&known);
        let Ok(written) = meta_out::render(&known, &groups) else { continue };
        let mut text = Vec::new();
        data_out::render(&groups, &mut text).unwrap();
        let (mut again, _) = meta::read(written.to_string().as_bytes()).unwrap();
        data::read(&text[..], data::DATA_MAX, &aggregations, &mut again).unwrap();
        assert_eq!(again.job.start, known.job.start);
    }
});
