//! Programs that notice how the library is loaded: sanitizers that look at the order of libraries, and loaders that cannot load it.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Node, guest, has_source, jobglass, must, program, root, skip};

fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output, the first line of the report and how it ended: addresses and process numbers differ from run to run.
fn shown(output: &Output) -> (String, Vec<String>, i32) {
    let err = text(&output.stderr);
    let first = err.lines().filter(|line| !line.is_empty() && !line.starts_with("====")).take(1);
    let kinds = first.map(|line| line.split(" on address").next().unwrap_or_default());
    let kinds =
        kinds.map(|line| line.trim_start_matches(|c: char| c == '=' || c.is_ascii_digit()).to_owned());
    (text(&output.stdout), kinds.collect(), output.status.into_raw())
}

/// Programs with ASan: with gcc's and clang's runtime, as a library and linked in.
fn sanitized() -> Vec<PathBuf> {
    let clang = must(Command::new("clang").args(["-print-file-name=libclang_rt.asan-x86_64.so"]));
    let runtime = Path::new(clang.trim()).parent().unwrap().display().to_string();
    let find = format!("-Wl,-rpath,{runtime}");
    let asan = "-fsanitize=address";
    [
        ("sanitized_gcc", "gcc", &[asan][..]),
        ("sanitized_gcc_static", "gcc", &[asan, "-static-libasan"]),
        ("sanitized_clang", "clang", &[asan, "-shared-libasan", &find]),
        ("sanitized_clang_static", "clang", &[asan]),
    ]
    .map(|(name, compiler, options)| program(name, compiler, "sanitized.c", options))
    .into()
}

/// `jobglass run` and what it runs, with the agent of this node.
fn run(node: &Node, program: &Path) -> Command {
    let mut command = bare(&jobglass());
    command.args(["run", "--library"]).arg(guest()).args(["--socket", &node.socket, "--"]).arg(program);
    command
}

#[test]
fn programs_with_asan_run_and_report_as_without_the_library() {
    let node = Node::start();
    let mut pids = Vec::new();
    for program in sanitized() {
        for args in [&[][..], &["overflow"]] {
            let without = bare(&program).args(args).output().unwrap();
            let child = run(&node, &program).args(args).stdout(piped()).stderr(piped()).spawn().unwrap();
            pids.push(child.id());
            let with = child.wait_with_output().unwrap();
            assert_eq!(shown(&with), shown(&without), "{} {args:?}", program.display());
            let found = text(&with.stderr).contains("heap-buffer-overflow");
            assert_eq!(found, !args.is_empty(), "{}: {}", program.display(), text(&with.stderr));
        }
    }
    // Whoever wants the check has it: the programs whose runtime is a library do not start.
    let strict =
        run(&node, &sanitized()[0]).env("ASAN_OPTIONS", "verify_asan_link_order=1").output().unwrap();
    assert!(text(&strict.stderr).contains("ASan runtime does not come first"), "{}", text(&strict.stderr));
    let rows = node.stop();
    let told = |pid: &u32| rows.iter().any(|row| row["pid"] == *pid && has_source(row, "guest"));
    assert!(pids.iter().all(told), "the library has reported all of them");
}

fn piped() -> std::process::Stdio {
    std::process::Stdio::piped()
}

#[test]
fn run_adds_to_asan_options_what_the_user_has_not_set() {
    let node = Node::start();
    for (before, expected) in [
        (None, "verify_asan_link_order=0"),
        (Some(""), "verify_asan_link_order=0"),
        (Some("detect_leaks=0"), "detect_leaks=0:verify_asan_link_order=0"),
        (Some("x=1,verify_asan_link_order=1"), "x=1,verify_asan_link_order=1"),
    ] {
        let mut command = run(&node, Path::new("/bin/sh"));
        command.args(["-c", "printf %s \"$ASAN_OPTIONS\""]);
        if let Some(before) = before {
            command.env("ASAN_OPTIONS", before);
        }
        assert_eq!(must(&mut command), expected, "{before:?}");
    }
}

/// A program whose plugin only its own RUNPATH finds, and a library that stands between the program and `dlopen`: the loader takes that
/// library for the caller.
fn with_plugin(dir: &Path) -> (PathBuf, PathBuf) {
    let (host, between) = (dir.join("host"), dir.join("between.so"));
    fs::create_dir_all(dir.join("plugins")).unwrap();
    let compile = |to: &Path, text: &str, options: &[&str]| {
        let source = to.with_extension("c");
        fs::write(&source, text).unwrap();
        must(Command::new("gcc").args(["-O0", "-o"]).arg(to).arg(&source).args(options).arg("-ldl"));
    };
    compile(&dir.join("plugins/libplugin_of_host.so"), "int plugin;", &["-shared", "-fPIC"]);
    compile(
        &host,
        "#include <dlfcn.h>\n#include <stdio.h>\nint main(void) {\n    puts(dlopen(\"libplugin_of_host.so\", RTLD_NOW) ? \"found\" : dlerror());\n    return 0;\n}\n",
        &["-Wl,--enable-new-dtags,-rpath,$ORIGIN/plugins"],
    );
    compile(
        &between,
        "#define _GNU_SOURCE\n#include <dlfcn.h>\nvoid *dlopen(const char *name, int flags) {\n    void *(*next)(const char *, int) = dlsym(RTLD_NEXT, \"dlopen\");\n    void *found = next(name, flags);\n    return found;\n}\n",
        &["-shared", "-fPIC"],
    );
    (host, between)
}

#[test]
fn a_plugin_on_the_run_path_of_a_program_is_found_with_the_library() {
    let dir = tempfile::tempdir().unwrap();
    let (host, between) = with_plugin(dir.path());
    assert_eq!(must(&mut bare(&host)), "found\n");
    assert_eq!(must(bare(&host).env("LD_PRELOAD", guest())), "found\n");
    let node = Node::start();
    assert_eq!(must(&mut run(&node, &host)), "found\n");
    // The loader does look at who calls it.
    let said = must(bare(&host).env("LD_PRELOAD", &between));
    assert!(said.contains("cannot open shared object file"), "{said}");
}

/// Both modulefiles, in a tree of their own with the library's place filled in.
fn modulefiles(dir: &Path) -> Vec<(&'static str, PathBuf)> {
    let library = guest();
    let place = library.parent().unwrap().display().to_string();
    ["lmod/0.1.0.lua", "tcl/0.1.0"]
        .map(|name| {
            let text = fs::read(root().join("packaging/modulefiles/jobglass").join(name)).unwrap();
            let tree = dir.join(name.split('/').next().unwrap());
            fs::create_dir_all(tree.join("jobglass")).unwrap();
            let file = tree.join("jobglass").join(name.rsplit('/').next().unwrap());
            fs::write(file, String::from_utf8(text).unwrap().replace("@LIBDIR@", &place)).unwrap();
            (name, tree)
        })
        .into()
}

#[test]
fn modules_add_to_asan_options_and_remove_only_that() {
    let init = Path::new("/usr/share/lmod/lmod/init/bash");
    if !init.exists() {
        return skip("modules_add_to_asan_options_and_remove_only_that", "lmod is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, tree) in modulefiles(dir.path()) {
        for (before, loaded, unloaded) in [
            ("unset ASAN_OPTIONS", "verify_asan_link_order=0", "unset"),
            ("export ASAN_OPTIONS=a=1", "a=1:verify_asan_link_order=0", "a=1"),
            // Theirs, and what they add meanwhile, stay.
            (
                "export ASAN_OPTIONS=verify_asan_link_order=0",
                "verify_asan_link_order=0",
                "verify_asan_link_order=0",
            ),
            (
                "export ASAN_OPTIONS=b=2:verify_asan_link_order=1",
                "b=2:verify_asan_link_order=1",
                "b=2:verify_asan_link_order=1",
            ),
        ] {
            let script = format!(
                "source {}; module use {}; {before}; module load jobglass; echo ${{ASAN_OPTIONS-unset}}; \
                 module unload jobglass; echo ${{ASAN_OPTIONS-unset}}; echo ${{JOBGLASS_ASAN_OPTIONS-unset}}${{LD_PRELOAD-unset}}",
                init.display(),
                tree.display()
            );
            let said = must(bare(Path::new("/bin/bash")).args(["-c", &script]));
            let lines: Vec<&str> = said.lines().collect();
            assert_eq!(lines, [loaded, unloaded, "unsetunset"], "{name}: {before}");
        }
    }
}

/// The decision is in docs/decisions/0030: the loader's message stays, and `LD_PRELOAD` names one file.
#[test]
fn a_32_bit_program_runs_and_its_loader_says_why_the_library_is_left_out() {
    let program = program("sanitized_32", "cc", "sanitized.c", &["-m32"]);
    let without = bare(&program).output().unwrap();
    let with = bare(&program).env("LD_PRELOAD", guest()).output().unwrap();
    assert_eq!((with.status, &with.stdout), (without.status, &without.stdout));
    let err = text(&with.stderr);
    assert!(err.contains("wrong ELF class: ELFCLASS64): ignored") && err.lines().count() == 1, "{err}");
    // As the documentation says, this is how to be without the message.
    let without = must(
        bare(Path::new("/bin/sh"))
            .env("LD_PRELOAD", guest())
            .args(["-c", &format!("env -u LD_PRELOAD {} 2>&1; test $? = 5", program.display())]),
    );
    assert_eq!(without, "hello\n");
    for name in ["lmod/0.1.0.lua", "tcl/0.1.0"] {
        let text = text_of(&root().join("packaging/modulefiles/jobglass").join(name));
        assert!(!text.contains("$LIB") && !text.contains("${LIB}"), "{name}");
    }
}

#[test]
fn in_a_chroot_without_the_library_programs_run_and_the_loader_says_so() {
    let in_chroot = |program: &Path, library: &Path| {
        let mut command = bare(Path::new("/usr/bin/bwrap"));
        for dir in ["/usr", "/bin", "/lib", "/lib64"] {
            command.args(["--ro-bind-try", dir, dir]);
        }
        command.arg("--ro-bind").arg(program).arg("/program");
        command.arg("--setenv").arg("LD_PRELOAD").arg(library).arg("/program").output().unwrap()
    };
    for (name, compiler, says) in [("plain", "cc", true), ("plain_musl", "musl-gcc", false)] {
        let program = program(name, compiler, "sanitized.c", &[]);
        let with = in_chroot(&program, &guest());
        assert_eq!((with.status.code(), text(&with.stdout)), (Some(5), "hello\n".into()), "{name}");
        let err = text(&with.stderr);
        // musl's loader says nothing.
        assert_eq!(err.contains("cannot open shared object file): ignored"), says, "{err}");
        assert!(err.lines().count() <= 1, "{err}");
    }
}

fn text_of(path: &Path) -> String {
    String::from_utf8(fs::read(path).unwrap()).unwrap()
}
