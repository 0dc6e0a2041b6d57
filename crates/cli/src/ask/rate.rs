//! `jobglass rate`: how often a job is read, changed while it runs.

use anyhow::{Context, Result, bail};
use record::rate::{self, LASTS_S, Request, Sensors};
use serde_json::{Value, json};

use super::server::Server;
use super::show::{self, Column, Shape, text, time};
use super::{Parameters, add, escape, server};
use crate::args::RateArgs;

/// A job's rate.
const RATE: &[Column] = &[
    ("JOB", |row| text(&row["job"])),
    (">EVERY", |row| row["every_s"].as_f64().map_or_else(show::unknown, |seconds| format!("{seconds} s"))),
    ("SENSORS", |row| sensors(&row["sensors"])),
    ("UNTIL", |row| time(&row["until"])),
    ("SET AT", |row| time(&row["set_at"])),
    ("BY", |row| match row["who"].as_str() {
        Some(who) => format!("{who} ({})", text(&row["set_by"])),
        None => text(&row["set_by"]),
    }),
];

fn sensors(names: &Value) -> String {
    let names: Option<Vec<&str>> =
        names.as_array().map(|names| names.iter().filter_map(Value::as_str).collect());
    names.map_or_else(|| "all".to_owned(), |names| names.join(","))
}

/// What was typed, and what it means.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Show,
    Off,
    Set(Request),
    /// The comment asks for nothing.
    Nothing,
}

impl Wish {
    fn of(args: &RateArgs) -> Result<Wish> {
        let sensors = Sensors::parse(args.sensors.iter().map(String::as_str))?;
        let lasts_s = args.lasts.as_deref().map(rate::parse_lasts).transpose()?;
        match (&args.rate, &args.comment) {
            (_, Some(comment)) => Ok(match rate::in_comment(comment).context("the comment")? {
                None => Wish::Nothing,
                // What is typed behind the comment holds unless the comment says something else.
                Some(asked) => Wish::Set(Request {
                    sensors: if asked.sensors.is_all() { sensors } else { asked.sensors },
                    lasts_s: asked.lasts_s.or(lasts_s),
                    ..asked
                }),
            }),
            (Some(text), _) if text != "off" => {
                Ok(Wish::Set(Request { every: rate::parse_every(text)?, sensors, lasts_s }))
            }
            _ if !sensors.is_all() || lasts_s.is_some() => {
                bail!("--sensors and --for need a rate, for example: jobglass rate {} 5s", args.id)
            }
            (Some(_), _) => Ok(Wish::Off),
            (None, _) => Ok(Wish::Show),
        }
    }
}

pub fn run(args: &RateArgs) -> Result<bool> {
    let wish = Wish::of(args)?;
    if wish == Wish::Nothing {
        return Ok(true);
    }
    if !rate::is_job_name(&args.id) {
        bail!("`{}` is no name of a batch job", args.id);
    }
    let server = server(&args.server)?;
    let shape = if args.json { Shape::Json } else { Shape::Table };
    let path = format!("/api/v1/jobs/{}/rate", escape(&args.id));
    let mut parameters = Parameters::new();
    add(&mut parameters, "cluster", args.cluster.as_ref());
    match wish {
        Wish::Set(request) => set(&server, &path, args, request, &shape),
        Wish::Off => off(&server, &path, &parameters, args),
        Wish::Show | Wish::Nothing => {
            let found = server.get(&path, &parameters)?.unwrap_or_default();
            let rows = found["rows"].as_array().cloned().unwrap_or_default();
            show::rows(&rows, RATE, &shape)?;
            if rows.is_empty() {
                say!("jobglass: job {} has no rate of its own", args.id);
            }
            Ok(!rows.is_empty())
        }
    }
}

fn set(server: &Server, path: &str, args: &RateArgs, request: Request, shape: &Shape) -> Result<bool> {
    let body = json!({
        "every_ms": (request.every / 1_000_000).max(1),
        "sensors": request.sensors.names(),
        "for_s": request.lasts_s.unwrap_or(LASTS_S),
        "cluster": args.cluster,
        "who": who(),
    });
    let answer = server.put(path, &body)?;
    warnings(&answer, args, request.every).iter().for_each(|warning| say!("jobglass: warning: {warning}"));
    show::rows(answer["rows"].as_array().map_or(&[], Vec::as_slice), RATE, shape)?;
    Ok(true)
}

/// Why the wish may come to nothing.
fn warnings(answer: &Value, args: &RateArgs, every_ns: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    // A prolog sets rates before anything can be known.
    if answer["is_known"] == false && args.comment.is_none() {
        warnings.push(format!(
            "nothing is known of job {}: the rate is kept for it, in case it begins before the rate ends",
            args.id
        ));
    }
    if let Some(floor_s) =
        answer["usual_floor_s"].as_f64().filter(|floor_s| (every_ns as f64) < floor_s * 1e9)
    {
        warnings.push(format!(
            "agents read a job every {floor_s} s at most, unless sampling.least_every_seconds of their configuration says otherwise"
        ));
    }
    warnings
}

fn off(server: &Server, path: &str, parameters: &Parameters, args: &RateArgs) -> Result<bool> {
    let removed =
        server.delete(path, parameters)?.context("this server does not know the request: is it older?")?;
    let removed = removed["removed"].as_u64().unwrap_or(0);
    match removed {
        _ if args.json => show::rows(&[json!({"job": args.id, "removed": removed})], &[], &Shape::Json)?,
        0 => say!("jobglass: job {} had no rate of its own", args.id),
        _ => say!("jobglass: job {} is read as usual again", args.id),
    }
    // There is none now, which is what was asked for.
    Ok(true)
}

/// All administrators may have one token: this tells them apart, by their own word.
fn who() -> Option<String> {
    let user = std::env::var("SUDO_USER").or_else(|_| std::env::var("USER")).ok();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Some(format!("{}@{host}", user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    #[test]
    fn what_is_typed_and_what_it_means() {
        const S: u64 = 1_000_000_000;
        let set = |every, names: &[&str], lasts_s| {
            let sensors = Sensors::parse(names.iter().copied()).unwrap();
            Ok(Wish::Set(Request { every, sensors, lasts_s }))
        };
        for (typed, expected) in [
            (&["17"][..], Ok(Wish::Show)),
            (&["17", "off"], Ok(Wish::Off)),
            (&["17", "5s"], set(5 * S, &[], None)),
            (&["17", "5s", "--sensors", "cpu,ib", "--for", "10m"], set(5 * S, &["cpu", "ib"], Some(600))),
            (&["17", "--comment", "hello"], Ok(Wish::Nothing)),
            (&["17", "--comment", ""], Ok(Wish::Nothing)),
            (&["17", "--comment", "jobglass:rate=2s", "--for", "2h"], set(2 * S, &[], Some(7200))),
            (
                &["17", "--comment", "jobglass:rate=2s,for=1h,sensors=io", "--for", "2h"],
                set(2 * S, &["io"], Some(3600)),
            ),
            (&["17", "--comment", "jobglass:rate=fast"], Err("`fast` is no rate")),
            (&["17", "fast"], Err("`fast` is no rate")),
            (&["17", "5s", "--sensors", "smell"], Err("there are: cpu, memory")),
            (&["17", "5s", "--for", "ever"], Err("`ever` is no time")),
            (&["17", "--for", "10m"], Err("need a rate")),
            (&["17", "off", "--sensors", "cpu"], Err("need a rate")),
        ] {
            let typed: Vec<&str> = ["jobglass", "rate"].iter().chain(typed).copied().collect();
            let Command::Rate(args) = Args::try_parse_from(&typed).unwrap().command else {
                panic!("{typed:?}")
            };
            match (Wish::of(&args), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{typed:?}"),
                (Err(error), Err(part)) => {
                    assert!(format!("{error:#}").contains(part), "{typed:?}: {error:#}")
                }
                (found, _) => panic!("{typed:?}: {found:?}"),
            }
        }
        assert!(Args::try_parse_from(["jobglass", "rate", "17", "5s", "--comment", "x"]).is_err());
    }
}
