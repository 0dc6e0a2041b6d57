//! One command of Slurm: run to its end or to its time limit, its output read as it comes, its complaints kept.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::super::stop::Stop;

const BUFFER: usize = 1 << 18;
/// So much of what it complains about is kept.
const SAID: u64 = 4096;
/// How often it is looked whether a command has to be ended, or has ended.
const LOOK: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_millis(5);

/// What people set for their own commands and what would change the output of ours.
const FOREIGN: [&str; 6] = [
    "SACCT_FEDERATION",
    "SACCT_FORMAT",
    "SACCT_LOCAL",
    "SLURM_CLUSTERS",
    "SLURM_TIME_FORMAT",
    "SACCTMGR_FORMAT",
];

/// A command of Slurm, with times in UTC and lists of tasks of arrays in full.
pub fn slurm(program: &str) -> Command {
    let mut command = Command::new(program);
    for name in FOREIGN {
        command.env_remove(name);
    }
    command.env("TZ", "UTC").env("SLURM_BITSTR_LEN", "0").env("LC_ALL", "C");
    command
}

/// What a command gave.
#[derive(Debug)]
pub struct Answer<T> {
    pub value: T,
    /// On standard error, though it did what it was asked for.
    pub said: String,
    pub took: Duration,
}

/// Runs a command and has its output read. One that fails, is too slow or is not wanted any more is an error, whatever
/// was read of it.
pub fn ask<T>(
    mut command: Command,
    limit: Duration,
    stop: &Stop,
    read: impl FnOnce(&mut dyn BufRead) -> T,
) -> Result<Answer<T>> {
    let name = command.get_program().display().to_string();
    let began = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A wrapper is ended with what it has started.
    command.process_group(0);
    let mut child =
        command.spawn().with_context(|| format!("cannot run {name}: is it installed and in PATH?"))?;
    let output = child.stdout.take().context("no output")?;
    let complaints = child.stderr.take().context("no output")?;
    let child = Mutex::new(child);
    thread::scope(|scope| {
        let (running, ended) = channel::<()>();
        let watch = scope.spawn(|| watch(&child, ended, limit, stop));
        let complaints = scope.spawn(|| keep(complaints));
        let value = read(&mut BufReader::with_capacity(BUFFER, output));
        let status = wait(&child);
        drop(running);
        let said = complaints.join().unwrap_or_default();
        match (watch.join().unwrap_or(Outcome::Ended), status?) {
            (Outcome::Stopped, _) => bail!("{name} was ended, since we are to stop"),
            (Outcome::TooSlow, _) => bail!("{name} took longer than {} s and was ended", limit.as_secs()),
            (Outcome::Ended, status) if !status.success() => bail!("{name} failed, {}", why(status, &said)),
            (Outcome::Ended, _) => Ok(Answer { value, said, took: began.elapsed() }),
        }
    })
}

/// The same, with all of the output in memory.
pub fn text(command: Command, limit: Duration, stop: &Stop) -> Result<Answer<Vec<u8>>> {
    let answer = ask(command, limit, stop, |output| {
        let mut text = Vec::new();
        output.read_to_end(&mut text).map(|_| text)
    })?;
    Ok(Answer { value: answer.value?, said: answer.said, took: answer.took })
}

fn why(status: ExitStatus, said: &str) -> String {
    if said.is_empty() { status.to_string() } else { format!("{status}: {said}") }
}

enum Outcome {
    Ended,
    TooSlow,
    Stopped,
}

/// Ends the command when it must be.
fn watch(child: &Mutex<Child>, ended: Receiver<()>, limit: Duration, stop: &Stop) -> Outcome {
    let began = Instant::now();
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let outcome = match (stop.is_set(), began.elapsed() > limit) {
            (true, _) => Outcome::Stopped,
            (_, true) => Outcome::TooSlow,
            _ => continue,
        };
        let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was waited for has no number any more.
        if let (Ok(None), Some(pid)) =
            (child.try_wait(), i32::try_from(child.id()).ok().and_then(Pid::from_raw))
        {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        return outcome;
    }
    Outcome::Ended
}

/// It has closed its output and is about to end.
fn wait(child: &Mutex<Child>) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.lock().unwrap_or_else(PoisonError::into_inner).try_wait()? {
            return Ok(status);
        }
        thread::park_timeout(SOON);
    }
}

/// The beginning of what it complains about, in one line; the rest is read, too, so that it never waits for us.
fn keep(mut complaints: ChildStderr) -> String {
    let mut said = Vec::new();
    let _ = complaints.by_ref().take(SAID).read_to_end(&mut said);
    let _ = std::io::copy(&mut complaints, &mut std::io::sink());
    let text = String::from_utf8_lossy(&said);
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().replace('\n', "; ").chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration, stop: &Stop) -> Result<Answer<Vec<u8>>> {
        let mut command = slurm("sh");
        command.args(["-c", script]);
        text(command, limit, stop)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_a_command_says_and_how_it_ends() {
        let stop = Stop::default();
        for (script, expected) in [
            ("echo a; echo b", Ok(("a\nb\n", ""))),
            ("echo a; printf 'x\\n\\033y' >&2", Ok(("a\n", "x;  y"))),
            ("echo $TZ $SLURM_BITSTR_LEN $SACCT_FORMAT", Ok(("UTC 0\n", ""))),
            ("echo a; exit 3", Err("sh failed, exit status: 3")),
            ("echo no such cluster >&2; exit 1", Err("sh failed, exit status: 1: no such cluster")),
            ("kill -9 $$", Err("sh failed, signal: 9 (SIGKILL)")),
        ] {
            match (shell(script, LONG, &stop), expected) {
                (Ok(answer), Ok((output, said))) => {
                    assert_eq!((&*answer.value, &*answer.said), (output.as_bytes(), said), "{script}");
                }
                (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected, "{script}"),
                (found, _) => panic!("{script}: {found:?}"),
            }
        }
        let none = ask(slurm("/none/sacct"), LONG, &stop, |_| ());
        assert!(none.unwrap_err().to_string().starts_with("cannot run /none/sacct"));
    }

    #[test]
    fn much_on_standard_error_holds_nothing_up() {
        let answer = shell("yes complaint | head -c 3000000 >&2; echo a", LONG, &Stop::default()).unwrap();
        assert_eq!(answer.value, b"a\n");
        assert!((4000..6000).contains(&answer.said.len()), "{}", answer.said.len());
    }

    /// Also if a wrapper has started it.
    #[test]
    fn who_is_too_slow_or_not_wanted_is_ended() {
        let began = Instant::now();
        let slow = shell("echo a; sleep 100; echo b", Duration::from_millis(200), &Stop::default());
        assert!(slow.unwrap_err().to_string().contains("took longer than 0 s"));
        let stop = Stop::default();
        stop.set();
        assert!(shell("sleep 100; true", LONG, &stop).unwrap_err().to_string().contains("we are to stop"));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
