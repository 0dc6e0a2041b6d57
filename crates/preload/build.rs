//! Links the guest without start files and without any library.

fn main() {
    for arg in [
        "-nostartfiles",
        "-nostdlib",
        // One mapping less for the loader, and no page of padding between the segments.
        "-Wl,--no-rosegment",
        "-Wl,-z,noseparate-code",
        "-Wl,-z,norelro",
        "-Wl,-z,noexecstack",
        "-Wl,--hash-style=gnu",
        "-Wl,--build-id=sha1",
        "-Wl,--gc-sections",
        "-Wl,--as-needed",
        "-Wl,-soname,libjobglass.so",
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
