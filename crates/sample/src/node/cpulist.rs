//! Lists of processors as the kernel writes them: `0-15,32-47`.

use crate::read::number;

/// Ranges, first and last. Not expanded: the text may claim four thousand million processors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuList(pub Vec<(u32, u32)>);

impl CpuList {
    /// How many processors.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum: u64, (first, last)| {
            sum.saturating_add(u64::from(last.saturating_sub(*first)).saturating_add(1))
        })
    }

    /// Each processor.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
}

/// An empty text is an empty list, as of memory without processors; anything odd is none.
pub fn parse_cpulist(text: &[u8]) -> Option<CpuList> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Some(CpuList::default());
    }
    text.split(|byte| *byte == b',').map(parse_range).collect::<Option<_>>().map(CpuList)
}

fn parse_range(text: &[u8]) -> Option<(u32, u32)> {
    let mut ends = text.splitn(2, |byte| *byte == b'-').map(|end| u32::try_from(number(end)?).ok());
    let first = ends.next()??;
    let last = ends.next().unwrap_or(Some(first))?;
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists() {
        for (text, expected) in [
            ("0-15,32-47\n", Some((32, vec![(0, 15), (32, 47)]))),
            ("0\n", Some((1, vec![(0, 0)]))),
            ("0,2,4-5", Some((4, vec![(0, 0), (2, 2), (4, 5)]))),
            ("\n", Some((0, vec![]))),
            ("0-4294967295", Some((1 << 32, vec![(0, u32::MAX)]))),
            ("5-4", None),
            ("0-4294967296", None),
            ("0-", None),
            ("0,,1", None),
            ("a", None),
        ] {
            let list = parse_cpulist(text.as_bytes()).map(|list| (list.count(), list.0));
            assert_eq!(list, expected, "{text}");
        }
        assert_eq!(parse_cpulist(b"0-1,4").unwrap().iter().collect::<Vec<_>>(), [0, 1, 4]);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse_cpulist(&bytes).map(|list| list.count());
        }

        #[test]
        fn what_looks_like_a_list_parses(text in "[0-9,-]{0,40}") {
            let _ = parse_cpulist(text.as_bytes()).map(|list| list.count());
        }
    }
}
