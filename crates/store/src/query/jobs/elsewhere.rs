//! Metrics that other systems keep under names of their own and that say the same as one of ours: a table, `rules/elsewhere.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

/// The file that is shipped.
const SHIPPED: &str = include_str!("../../../rules/elsewhere.toml");

static TABLE: LazyLock<Vec<Elsewhere>> = LazyLock::new(|| {
    // A test reads it.
    toml::from_str::<File>(SHIPPED).map(|file| file.elsewhere).unwrap_or_default()
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    elsewhere: Vec<Elsewhere>,
}

/// One of theirs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Elsewhere {
    metric: String,
    name: String,
    times: Times,
}

/// What makes our unit of theirs.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
enum Times {
    Number(f64),
    /// How many GPUs a node of the job had.
    Gpus,
}

impl TryFrom<String> for Times {
    type Error = String;

    fn try_from(text: String) -> Result<Times, String> {
        match &*text {
            "gpus" => Ok(Times::Gpus),
            _ => text
                .parse()
                .map(Times::Number)
                .map_err(|_| format!("`{text}` is neither a number nor `gpus`")),
        }
    }
}

/// A characteristic of one of our metrics as SQL: the first of these that is known, then what others have under their names.
pub(super) fn or_elsewhere(metric: &str, characteristic: &str, own: &[&str]) -> String {
    let mut words: Vec<String> = own.iter().map(|from| format!("{from}.{metric}_{characteristic}")).collect();
    for of in TABLE.iter().filter(|of| of.metric == metric) {
        let times = match of.times {
            Times::Number(number) => format!("{number:e}"),
            Times::Gpus => "c.gpus / nullif(c.nodes, 0)".to_owned(),
        };
        words.push(format!("m.own_{}_{characteristic} * {times}", of.name));
    }
    match &words[..] {
        [only] => only.clone(),
        all => format!("coalesce({})", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::metric;

    #[test]
    fn each_is_one_of_ours() {
        let file: File = toml::from_str(SHIPPED).unwrap();
        assert!(file.elsewhere.iter().all(|of| metric::by_name(&of.metric).is_some()));
        assert!(toml::from_str::<File>("[[elsewhere]]\nmetric = 'a'\nname = 'b'\ntimes = 'c'\n").is_err());
    }

    #[test]
    fn what_others_have_comes_last() {
        assert_eq!(
            or_elsewhere("node_load", "avg", &["j", "m"]),
            "coalesce(j.node_load_avg, m.node_load_avg, m.own_cpu_load_avg * 1e2)"
        );
        assert_eq!(or_elsewhere("threads", "max", &["j"]), "j.threads_max");
    }
}
