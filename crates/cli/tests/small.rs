//! The guest is small and depends on nothing.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::*;

fn readelf(option: &str) -> String {
    must(Command::new("readelf").args(["-W", option]).arg(guest()))
}

#[test]
fn at_most_32_kib_and_stripped() {
    assert!(fs::metadata(guest()).unwrap().len() <= 32 * 1024);
    assert!(!readelf("-S").contains(".symtab"), "it is not stripped");
}

#[test]
fn needs_no_library_and_no_version() {
    let dynamic = readelf("-d");
    assert!(!dynamic.contains("(NEEDED)"), "{dynamic}");
    for section in [".gnu.version", ".gnu.version_r"] {
        assert!(!readelf("-S").contains(section), "it has {section}");
    }
}

#[test]
fn only_two_weak_symbols_are_undefined_and_none_is_exported() {
    let symbols = must(Command::new("nm").args(["-D"]).arg(guest()));
    let mut symbols: Vec<&str> = symbols.lines().map(str::trim).collect();
    symbols.sort_unstable();
    assert_eq!(symbols, ["w dl_iterate_phdr", "w environ"]);
}

/// A panic's message would be a string with the place in our source.
#[test]
fn nothing_in_it_can_panic() {
    let bytes = fs::read(guest()).unwrap();
    for text in ["panicked", "index out of", "src/start.rs", "src/objects.rs", "overflow"] {
        assert!(!bytes.windows(text.len()).any(|part| part == text.as_bytes()), "it has `{text}` in it");
    }
}

#[test]
fn the_stack_is_not_executable_and_no_segment_is_writable_code() {
    let segments = readelf("-l");
    let stack = segments.lines().find(|line| line.contains("GNU_STACK")).unwrap();
    assert!(stack.contains(" RW "), "{stack}");
    assert!(!segments.contains("RWE"), "{segments}");
}

#[test]
fn loads_into_glibc_and_musl() {
    for program in [&*SURVIVE, &*SURVIVE_MUSL] {
        let output = Command::new(program).arg("exit3").env("LD_PRELOAD", guest()).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The instructions of `/bin/true` with a library, counted by callgrind: the same number in every run, however busy the machine is.
fn instructions(library: &Path, socket: &str, dir: &Path) -> u64 {
    let counts = dir.join("counts");
    let mut command = Command::new("valgrind");
    command.env_clear().env("LD_PRELOAD", library).env("JOBGLASS_SOCKET", socket);
    command
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg("/bin/true");
    must(&mut command);
    let counts = String::from_utf8(fs::read(counts).unwrap()).unwrap();
    let total =
        counts.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
    total.unwrap_or_else(|| panic!("{counts}")).trim().parse().unwrap()
}

/// Every program of every user pays for it. The agent's table of rules is read, too.
#[test]
fn costs_at_most_40_000_instructions() {
    if !is_root("costs_at_most_40_000_instructions") {
        return;
    }
    let node = Node::start();
    let dir = node.dir.path();
    let empty = dir.join("empty.so");
    fs::write(dir.join("empty.c"), "").unwrap();
    must(Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&empty).arg(dir.join("empty.c")));
    // The user has a socket of their own.
    must(node.command(&*SURVIVE).arg("return"));
    wait_until("the user's socket", || Path::new(&format!("{}.0", node.socket)).exists());
    let [with, without] = [guest(), empty].map(|library| instructions(&library, &node.socket, dir));
    eprintln!("{} instructions above an empty library", with - without);
    assert!(with - without <= 40_000, "{with} with the library, {without} with an empty one");
}
