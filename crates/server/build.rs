//! The server finds DuckDB's library beside itself, where `make install` puts it, or where scripts/duckdb does.

fn main() {
    for place in ["$ORIGIN", "$ORIGIN/../lib/jobglass", "$ORIGIN/../duckdb", "$ORIGIN/../../duckdb"] {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{place}");
    }
}
