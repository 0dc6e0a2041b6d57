//! Generic resources of nodes and of jobs on them: `gpu:a100:2(IDX:0-1),shard:8`.

use record::site::Gpus;

use crate::number::{KIBI, scaled, whole};

/// No node has more GPUs.
const GPUS_MAX: u64 = 1024;

/// The numbers of the GPUs in a list like `gpu:a100:2(IDX:0-1),gpu(IDX:3)`. Nothing if it is no such list; those that are
/// only counted have no numbers.
pub fn indices(list: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for item in items(list) {
        let (name, inside) = item.split_once('(').unwrap_or((item, ""));
        let Some(ranges) = inside.strip_prefix("IDX:").filter(|_| is_gpu(name)) else { continue };
        for range in ranges.strip_suffix(')')?.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (whole(first.as_bytes())?, whole(last.as_bytes())?);
            if first > last || last >= GPUS_MAX || numbers.len() as u64 >= GPUS_MAX {
                return None;
            }
            numbers.extend((first..=last).map(|number| number.to_string()));
        }
    }
    Some(numbers)
}

/// The GPUs of a node: `gpu:a100:2(S:0-1)`, `gpu:4`, or `gpu` for one. Nothing if a number of them cannot be read.
pub fn gpus(list: &str) -> Option<Vec<Gpus>> {
    let is_gpus = |item: &&str| is_gpu(item.split('(').next().unwrap_or(item));
    items(list).into_iter().filter(is_gpus).map(gpus_of).collect()
}

fn gpus_of(item: &str) -> Option<Gpus> {
    let item = item.split('(').next().unwrap_or(item);
    let parts: Vec<&str> = item.split(':').filter(|part| *part != "no_consume").collect();
    let count = |text: &str| scaled(text.as_bytes(), KIBI, 1);
    match parts[..] {
        [_] => Some(Gpus { model: None, count: 1 }),
        // `gpu:4` has a number, `gpu:a100` a model.
        [_, one] => Some(match count(one) {
            Some(count) => Gpus { model: None, count },
            None => Gpus { model: Some(one.into()), count: 1 },
        }),
        [_, model, number] => Some(Gpus { model: Some(model.into()), count: count(number)? }),
        _ => None,
    }
}

fn is_gpu(name: &str) -> bool {
    name.split(':').next() == Some("gpu")
}

/// Splits at commas outside parentheses.
fn items(list: &str) -> Vec<&str> {
    let mut is_open = false;
    let is_end = |c: char| {
        is_open = if is_open { c != ')' } else { c == '(' };
        c == ',' && !is_open
    };
    list.split(is_end).filter(|item| !item.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_gpus() {
        for (list, expected) in [
            ("", Some("")),
            ("gpu:a100:2(IDX:0-1)", Some("0 1")),
            ("gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:2)", Some("0 1 2")),
            ("gpu:4(IDX:0,2-3,7)", Some("0 2 3 7")),
            ("gpu(IDX:0)", Some("0")),
            ("gpu:a100(IDX:1-2)", Some("1 2")),
            ("gpu:2(CNT:2)", Some("")),
            ("gpu:0(IDX:),shard:a100:2(2/8,0/8)", Some("")),
            ("mps:50(IDX:0),gpu:1(IDX:3)", Some("3")),
            ("gpumem:7(IDX:0)", Some("")),
            ("gpu:1(IDX:N/A)", None),
            ("gpu:1(IDX:2-1)", None),
            ("gpu:1(IDX:0-1023)", Some("…")),
            ("gpu:1(IDX:0-1024)", None),
            ("gpu:1(IDX:0", None),
        ] {
            let found = indices(list).map(|numbers| numbers.join(" "));
            match expected {
                Some("…") => assert_eq!(found.unwrap().split(' ').count(), 1024),
                _ => assert_eq!(found.as_deref(), expected, "{list}"),
            }
        }
        let often = "gpu(IDX:0-1023),".repeat(9);
        assert_eq!(indices(&often), None);
    }

    #[test]
    fn gpus_of_a_node() {
        for (list, expected) in [
            ("gpu:a100:4(S:0-1)", Some("a100=4")),
            ("gpu:a100:2,gpu:v100:1", Some("a100=2 v100=1")),
            ("gpu:4", Some("-=4")),
            ("gpu", Some("-=1")),
            ("gpu:a100", Some("a100=1")),
            ("gpu:a100:no_consume:2", Some("a100=2")),
            ("craynetwork:4,gpu:h100:8(S:0,1),shard:h100:64(S:0,1)", Some("h100=8")),
            ("license:3", Some("")),
            ("gpu:a100:many", None),
            ("gpu:a:b:c", None),
        ] {
            let one = |gpus: &Gpus| format!("{}={}", gpus.model.as_deref().unwrap_or("-"), gpus.count);
            let found = gpus(list).map(|all| all.iter().map(one).collect::<Vec<_>>().join(" "));
            assert_eq!(found.as_deref(), expected, "{list}");
        }
    }
}
