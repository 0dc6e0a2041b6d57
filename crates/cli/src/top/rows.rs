//! Which jobs are shown, and in which order.

use std::cmp::Ordering;

use serde_json::Value;

use super::keys::State;
use crate::args::Sort;

/// The jobs that fit, those that use most first; of whom it is not known, last.
pub fn chosen<'a>(all: &'a [Value], state: &State) -> Vec<&'a Value> {
    let mut rows: Vec<&Value> = all.iter().filter(|row| fits(row, state)).collect();
    // Stable: what is alike stays where the server put it, and does not jump from one look to the next.
    rows.sort_by(|a, b| compare(a, b, state.sort));
    rows
}

/// What is looked through for a text.
const TEXTS: [&str; 6] = ["job", "user", "name", "partition", "program", "cluster"];

fn fits(row: &Value, state: &State) -> bool {
    let is_user = state.user.is_empty() || row["user"].as_str() == Some(&state.user);
    let text = state.text.to_lowercase();
    let has_text = |name: &str| row[name].as_str().is_some_and(|value| value.to_lowercase().contains(&text));
    is_user && (text.is_empty() || TEXTS.into_iter().any(has_text))
}

fn compare(a: &Value, b: &Value, sort: Sort) -> Ordering {
    if sort == Sort::User {
        let user = |row: &'_ Value| row["user"].as_str().map(str::to_owned);
        return match (user(a), user(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
    }
    match (measure(a, sort), measure(b, sort)) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

fn measure(row: &Value, sort: Sort) -> Option<f64> {
    let of = |name: &str| row[name].as_f64();
    match sort {
        Sort::Cpu => of("cpu_used"),
        Sort::Memory => of("memory_used"),
        Sort::Io => Some(of("read")? + of("written")?),
        Sort::Gpu => of("gpu_used").or(of("gpu_reserved").map(|_| 0.0)),
        Sort::Time => of("elapsed_s"),
        Sort::User => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sorted_and_filtered() {
        let all = [
            json!({"job": "1", "user": "bob", "cpu_used": 1.0, "memory_used": 5, "read": 1.0, "written": 1.0, "elapsed_s": 9.0}),
            json!({"job": "2", "user": "alice", "cpu_used": null, "memory_used": 7, "read": 5.0, "written": null, "elapsed_s": 8.0}),
            json!({"job": "3", "user": null, "name": "Heat 3d", "program": "solver", "cpu_used": 3.0, "memory_used": 6, "gpu_reserved": 2, "elapsed_s": 7.0}),
            json!({"job": "4", "user": "alice", "cpu_used": 3.0, "gpu_used": 1.5, "gpu_reserved": 2, "elapsed_s": 6.0}),
        ];
        let jobs = |sort, text: &str, user: &str| -> String {
            let state = State { text: text.into(), user: user.into(), ..State::new(sort, None) };
            chosen(&all, &state).iter().map(|row| row["job"].as_str().unwrap()).collect()
        };
        for (sort, text, user, expected) in [
            (Sort::Cpu, "", "", "3412"),
            (Sort::Memory, "", "", "2314"),
            (Sort::Io, "", "", "1234"),
            (Sort::Gpu, "", "", "4312"),
            (Sort::Time, "", "", "1234"),
            (Sort::User, "", "", "2413"),
            (Sort::Time, "", "alice", "24"),
            (Sort::Time, "AL", "", "24"),
            (Sort::Time, "3", "", "3"),
            (Sort::Time, "heat", "", "3"),
            (Sort::Time, "solv", "", "3"),
            (Sort::Time, "4", "bob", ""),
            (Sort::Time, "", "nobody", ""),
        ] {
            assert_eq!(jobs(sort, text, user), expected, "{sort:?} {text:?} {user:?}");
        }
    }
}
