//! Tags as they are written in a file, and what a site says over those that are shipped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::space::Space;

/// A tag as it is written.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// For good, and for this tag only.
    pub id: u32,
    pub name: Name,
    /// Other spellings of the name.
    #[serde(default)]
    pub aliases: Vec<Name>,
    /// Who sees it. A criterion of a project's tag, or of one person's, is about their jobs only.
    #[serde(default)]
    pub space: Space,
    /// In full sentences.
    pub description: String,
    /// Who has written it.
    #[serde(default)]
    pub author: String,
    /// A condition over the columns of jobs; without one, people set the tag.
    pub criterion: Option<String>,
    /// Of which kind of jobs the criterion says anything: of others it is unknown whether it holds. All if absent.
    pub kind: Option<Kind>,
    /// Values that the criterion names, each written as in a condition. A site may give others.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    #[serde(default)]
    pub comments: String,
    /// What cannot be assigned yet, or no longer, is not available.
    #[serde(default = "yes")]
    pub available: bool,
    /// Tags that say something about the same thing; the one with the highest priority is shown first. Of an exclusive group, a job has
    /// only that one.
    pub group: String,
    #[serde(default)]
    pub priority: u32,
    /// How bad it is for the job or the machine.
    #[serde(default)]
    pub criticality: Level,
    /// How sure it is that what is said is so.
    #[serde(default = "Level::highest")]
    pub confidence: Level,
    /// What may be the matter, with the names of columns in `{}` for the job's values.
    #[serde(default)]
    pub supposition: String,
    /// What can be done.
    #[serde(default)]
    pub recommendation: String,
}

impl Declaration {
    /// One that people set, with nothing said but what must be.
    pub fn new(id: u32, name: Name, group: &str, description: String) -> Declaration {
        Declaration {
            id,
            name,
            aliases: Vec::new(),
            space: Space::General,
            description,
            author: String::new(),
            criterion: None,
            kind: None,
            parameters: BTreeMap::new(),
            comments: String::new(),
            available: true,
            group: group.into(),
            priority: 0,
            criticality: Level::default(),
            confidence: Level::highest(),
            supposition: String::new(),
            recommendation: String::new(),
        }
    }

    /// By somebody, unless it is said who has written it.
    pub fn by(mut self, author: &str) -> Declaration {
        if self.author.is_empty() {
            author.clone_into(&mut self.author);
        }
        self
    }
}

/// A batch job, or the session of somebody who logged in: what a job requested, a session did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Job,
    Session,
}

fn yes() -> bool {
    true
}

/// From 1, the least, to 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Level(u8);

impl Level {
    pub fn highest() -> Level {
        Level(5)
    }

    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for Level {
    fn default() -> Self {
        Level(1)
    }
}

impl TryFrom<u8> for Level {
    type Error = String;

    fn try_from(level: u8) -> Result<Level, String> {
        if (1..=5).contains(&level) {
            Ok(Level(level))
        } else {
            Err(format!("{level} is not between 1 and 5"))
        }
    }
}

impl From<Level> for u8 {
    fn from(level: Level) -> u8 {
        level.0
    }
}

/// What a site says of tags: `[tags]` in its file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Site {
    /// How far apart things may be that are "approximately" the same: 0.25 is a quarter more or less.
    #[serde(default = "a_quarter")]
    pub approximately: f64,
    /// Groups besides the shipped ones of which a job has one tag at most.
    #[serde(default)]
    pub exclusive: Vec<String>,
    /// Where home directories lie: `{home}` in the patterns of a criterion.
    #[serde(default = "home")]
    pub homes: Vec<String>,
    /// By the name of the tag.
    #[serde(default, flatten)]
    pub tags: BTreeMap<String, OfTag>,
}

fn home() -> Vec<String> {
    vec!["/home".into()]
}

fn a_quarter() -> f64 {
    0.25
}

impl Default for Site {
    fn default() -> Self {
        Site { approximately: a_quarter(), exclusive: Vec::new(), homes: home(), tags: BTreeMap::new() }
    }
}

/// What it says of one tag.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfTag {
    pub available: Option<bool>,
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// What is wrong with a file of tags, with its line and text.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.to_string().trim_end())]
pub struct FileError(#[from] toml::de::Error);

/// The tags of a file.
pub fn parse(text: &str) -> Result<Vec<Declaration>, FileError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        tag: Vec<Declaration>,
    }
    let file: File = toml::from_str(text)?;
    Ok(file.tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "[[tag]]\nid = 7\nname = 'a B'\ngroup = 'g'\ndescription = 'It is so.'\n";

    #[test]
    fn a_tag_of_few_words() {
        let tags = parse(LEAST).unwrap();
        let tag = &tags[0];
        assert_eq!((tag.id, tag.name.as_str(), tag.criterion.as_ref()), (7, "a B", None));
        assert_eq!((tag.criticality.get(), tag.confidence.get(), tag.available), (1, 5, true));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (more, said) in [
            ("criticality = 6\n", "6 is not between 1 and 5"),
            ("kriterion = 'a'\n", "unknown field `kriterion`"),
            ("kind = 'jobs'\n", "unknown variant `jobs`, expected `job` or `session`"),
            ("aliases = ['a,b']\n", "`a,b` is no name for a tag"),
        ] {
            let error = parse(&format!("{LEAST}{more}")).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("line 6"), "{error}");
        }
        let error = parse("[[tag]]\nid = 7\n").unwrap_err().to_string();
        assert!(error.contains("missing field"), "{error}");
    }

    #[test]
    fn a_site_says_what_is_different() {
        let site: Site = toml::from_str(
            "approximately = 0.1\n[\"avg_CPU_user LOW\"]\navailable = false\nparameters = { low = '30%' }\n",
        )
        .unwrap();
        assert_eq!(site.approximately, 0.1);
        let of = &site.tags["avg_CPU_user LOW"];
        assert_eq!((of.available, &*of.parameters["low"]), (Some(false), "30%"));
        assert_eq!(Site::default().approximately, 0.25);
    }
}
