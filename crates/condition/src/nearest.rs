//! The name that somebody may have meant.

/// Longer names are no slips of the hand, and the table below is quadratic.
const LONGEST: usize = 64;

/// The nearest of the names, if it is near: one letter in three may be wrong, missing, too many, or swapped with its
/// neighbour.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    if name.len() > LONGEST {
        return None;
    }
    let near = |other: &'a str| Some((distance(&name, &other.to_ascii_lowercase())?, other));
    let best = names.filter(|other| other.len() <= LONGEST).filter_map(near).min_by_key(|(far, _)| *far);
    best.filter(|(far, _)| *far <= name.len().div_ceil(3)).map(|(_, other)| other)
}

/// How many letters differ; `None` if the lengths already say that it is too far.
fn distance(a: &str, b: &str) -> Option<usize> {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > a.len().div_ceil(3) {
        return None;
    }
    // Three rows of the table of distances between beginnings: before the last, the last, this one.
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<usize>>(), vec![0; b.len() + 1]];
    for (i, letter) in a.iter().enumerate() {
        let [before, last, now] = &mut rows;
        now[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(letter != other);
            now[j + 1] = replaced.min(last[j + 1] + 1).min(now[j] + 1);
            if i > 0 && j > 0 && *letter == b[j - 1] && a[i - 1] == *other {
                now[j + 1] = now[j + 1].min(before[j - 1] + 1);
            }
        }
        rows.rotate_left(1);
    }
    rows[1].last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be_meant() {
        let names = ["gpu_util_avg", "gpus", "elapsed", "user"];
        for (typed, expected) in [
            ("gpu_utl_avg", Some("gpu_util_avg")),
            ("GPU_UTIL_AVR", Some("gpu_util_avg")),
            ("gpsu", Some("gpus")),
            ("elasped", Some("elapsed")),
            ("usre", Some("user")),
            ("gpu", Some("gpus")),
            ("memory", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, names.into_iter()), expected, "{typed}");
        }
        assert_eq!(nearest(&"x".repeat(65), names.into_iter()), None);
    }

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("abcd", "abcd", 0),
            ("abcd", "abdc", 1),
            ("abcd", "abc", 1),
            ("abcd", "xbcd", 1),
            ("abcd", "badc", 2),
        ] {
            assert_eq!(distance(a, b), Some(expected), "{a} {b}");
        }
    }
}
