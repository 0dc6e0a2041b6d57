//! What tests of this crate share: spans from pairs, and the same computed in another language.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::series::Span;

pub fn spans(pairs: &[(i64, f64)]) -> Vec<Span> {
    pairs.iter().map(|(length, value)| Span { from: 0, length: *length, value: *value }).collect()
}

/// What a Python program answers, a line of JSON for each.
pub fn in_python(program: &str, lines: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut python = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut input = python.stdin.take().unwrap();
    // Sent beside the reading: two pipes that are both full would wait for each other.
    let lines: Vec<String> = lines.map(|line| format!("{line}\n")).collect();
    let sending =
        std::thread::spawn(move || lines.iter().try_for_each(|line| input.write_all(line.as_bytes())));
    let output = python.wait_with_output().unwrap();
    sending.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
