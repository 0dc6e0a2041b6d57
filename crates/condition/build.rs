//! Test binaries find DuckDB's library where scripts/duckdb puts it.

fn main() {
    println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN/../../duckdb");
}
