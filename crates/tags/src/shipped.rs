//! The tags that everybody has: all of the paper, and more.

use serde::Deserialize;

use crate::declaration::{Declaration, FileError, parse};

/// The files, by name.
pub const FILES: [(&str, &str); 9] = [
    ("processors.toml", include_str!("../../../tags/processors.toml")),
    ("interconnect.toml", include_str!("../../../tags/interconnect.toml")),
    ("memory.toml", include_str!("../../../tags/memory.toml")),
    ("status.toml", include_str!("../../../tags/status.toml")),
    ("submission.toml", include_str!("../../../tags/submission.toml")),
    ("partitions.toml", include_str!("../../../tags/partitions.toml")),
    ("software.toml", include_str!("../../../tags/software.toml")),
    ("people.toml", include_str!("../../../tags/people.toml")),
    ("advice.toml", include_str!("../../../tags/advice.toml")),
];

const GROUPS: &str = include_str!("../../../tags/groups.toml");

/// Ids below this are ours; a site's own tags have others.
pub const OWN_IDS: u32 = 1000;

const AUTHOR: &str = "Jobglass";

pub fn shipped() -> Result<Vec<Declaration>, FileError> {
    let mut tags = Vec::new();
    for (_, text) in FILES {
        tags.extend(parse(text)?.into_iter().map(|tag| tag.by(AUTHOR)));
    }
    Ok(tags)
}

/// The groups of tags of which a job has one at most.
pub fn exclusive_groups() -> Result<Vec<String>, FileError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        exclusive: Vec<String>,
    }
    let file: File = toml::from_str(GROUPS)?;
    Ok(file.exclusive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_tags_of_the_paper_are_there() {
        let tags = shipped().unwrap();
        let ids: BTreeSet<u32> = tags.iter().map(|tag| tag.id).collect();
        assert_eq!(ids.len(), tags.len());
        assert!(ids.iter().all(|id| (1..OWN_IDS).contains(id)));
        // Those of the partitions declare themselves.
        let of_partitions = 32..=39;
        let missing: Vec<u32> =
            (1..=56).filter(|id| !of_partitions.contains(id) && !ids.contains(id)).collect();
        assert_eq!(missing, [] as [u32; 0]);
    }

    #[test]
    fn exclusive_groups_have_tags_in_an_order() {
        let tags = shipped().unwrap();
        for group in exclusive_groups().unwrap() {
            let of_group = tags.iter().filter(|tag| tag.group == group && tag.criterion.is_some()).count();
            assert!(of_group > 1, "{group}");
        }
    }

    #[test]
    fn what_is_said_is_said_in_sentences() {
        for tag in shipped().unwrap() {
            for text in [&tag.description, &tag.supposition, &tag.recommendation, &tag.comments] {
                let ends = text.is_empty() || text.ends_with('.') || text.ends_with('}');
                assert!(ends, "{}: {text}", tag.name);
            }
            assert!(!tag.description.is_empty(), "{}", tag.name);
        }
    }
}
