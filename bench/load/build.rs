//! It finds DuckDB's library where scripts/duckdb puts it.

fn main() {
    for place in ["$ORIGIN", "$ORIGIN/../lib/jobglass", "$ORIGIN/../duckdb", "$ORIGIN/../../duckdb"] {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{place}");
    }
}
