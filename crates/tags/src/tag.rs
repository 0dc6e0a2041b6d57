//! A tag that makes sense: its criterion is a condition, with the site's values in it, and its texts name columns that there are.

use condition::{Catalogue, Condition, ConditionError, ParameterError, Parameters};

use crate::declaration::{Declaration, OfTag, Site};
use crate::homes;
use crate::name::{self, Name};
use crate::space::Space;
use crate::text::{Text, TextError};

/// A tag.
#[derive(Debug, Clone, PartialEq)]
pub struct Tag {
    pub declared: Declaration,
    /// With the values of the site; its text is what is kept of a version.
    pub criterion: Option<Condition>,
    pub available: bool,
    pub supposition: Text,
    pub recommendation: Text,
}

/// What is wrong with a declaration.
#[derive(Debug, thiserror::Error)]
pub enum TagError {
    #[error("tag `{0}` has no description")]
    NoDescription(Name),
    #[error("tag `{name}`, criterion: {error}")]
    Criterion { name: Name, error: Box<ConditionError> },
    #[error("tag `{name}`: {error}")]
    Parameter { name: Name, error: Box<ParameterError> },
    #[error("tag `{name}` has no parameter `{parameter}`; there are: {}", known.join(", "))]
    NoParameter { name: Name, parameter: String, known: Vec<String> },
    #[error("tag `{name}`: its criterion does not use the parameter `{parameter}`")]
    Unused { name: Name, parameter: String },
    #[error("tag `{name}`, text: {error}")]
    Text { name: Name, error: TextError },
    #[error("`approximately` is {0}; it is a number from 0 to 1, such as 0.25")]
    Approximately(f64),
    #[error(
        "`homes` has `{0}`; it is a list of absolute paths such as \"/home\", without patterns and quotes"
    )]
    Home(String),
    #[error("`homes` is empty; leave it out for \"/home\"")]
    NoHomes,
    #[error("`{name}` means both tag {one} and tag {other}")]
    Twice { name: String, one: u32, other: u32 },
    #[error("two tags have the id {0}: `{1}` and `{2}`")]
    TwiceId(u32, Name, Name),
    #[error("the site names a tag that there is not: `{0}`")]
    NoTag(String),
}

/// What every criterion may name besides its own parameters.
const APPROXIMATELY: &str = "approximately";

impl Tag {
    /// Whether this tag is meant.
    pub fn is_called(&self, typed: &str) -> bool {
        let key = name::key(typed);
        self.names().any(|name| name.key() == key)
    }

    fn names(&self) -> impl Iterator<Item = &Name> {
        std::iter::once(&self.declared.name).chain(&self.declared.aliases)
    }

    /// One that is not told from others by its name.
    pub fn check(declared: &Declaration, site: &Site, catalogue: &Catalogue) -> Result<Tag, TagError> {
        let name = || declared.name.clone();
        if declared.description.trim().is_empty() {
            return Err(TagError::NoDescription(name()));
        }
        let key = declared.name.key();
        let said = site.tags.iter().find(|(typed, _)| name::key(typed) == key).map(|(_, said)| said);
        let parameters = parameters(declared, said, site, catalogue)?;
        let parsed = |text: &str| {
            Condition::parse_with(text, catalogue, &parameters)
                .map_err(|error| TagError::Criterion { name: name(), error: error.into() })
        };
        let criterion = declared.criterion.as_deref().map(|text| homes::expand(text, &site.homes));
        let criterion = criterion.as_deref().map(|text| {
            let criterion = parsed(text)?;
            // First by itself, so that an error points at its own place.
            match declared.space.condition() {
                None => Ok(criterion),
                Some(own) => parsed(&format!("{own} and ({text})")),
            }
        });
        let text =
            |text: &str| Text::parse(text, catalogue).map_err(|error| TagError::Text { name: name(), error });
        Ok(Tag {
            criterion: criterion.transpose()?,
            available: said.and_then(|said| said.available).unwrap_or(declared.available),
            supposition: text(&declared.supposition)?,
            recommendation: text(&declared.recommendation)?,
            declared: declared.clone(),
        })
    }
}

/// The tag's own values, with those of the site instead where it gives some.
fn parameters(
    declared: &Declaration,
    said: Option<&OfTag>,
    site: &Site,
    catalogue: &Catalogue,
) -> Result<Parameters, TagError> {
    let name = || declared.name.clone();
    let mut parameters = Parameters::default();
    let mut set = |parameter: &str, value: &str| {
        parameters
            .set(parameter, value, catalogue)
            .map_err(|error| TagError::Parameter { name: name(), error: error.into() })
    };
    set(APPROXIMATELY, &site.approximately.to_string())?;
    let criterion = declared.criterion.as_deref().unwrap_or_default();
    for (parameter, value) in &declared.parameters {
        let mut words = criterion.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        if !words.any(|word| word == parameter) {
            return Err(TagError::Unused { name: name(), parameter: parameter.clone() });
        }
        set(parameter, value)?;
    }
    for (parameter, value) in said.iter().flat_map(|said| &said.parameters) {
        if !declared.parameters.contains_key(parameter) {
            let known = declared.parameters.keys().cloned().collect();
            return Err(TagError::NoParameter { name: name(), parameter: parameter.clone(), known });
        }
        set(parameter, value)?;
    }
    Ok(parameters)
}

/// Tags of which each id means one, and each name one of those that somebody sees.
pub fn check(declared: &[Declaration], site: &Site, catalogue: &Catalogue) -> Result<Vec<Tag>, TagError> {
    if !(0.0..=1.0).contains(&site.approximately) {
        return Err(TagError::Approximately(site.approximately));
    }
    if site.homes.is_empty() {
        return Err(TagError::NoHomes);
    }
    if let Some(home) = site.homes.iter().find(|home| !homes::is_usable(home)) {
        return Err(TagError::Home(home.clone()));
    }
    let mut tags: Vec<Tag> = Vec::new();
    for declaration in declared {
        let tag = Tag::check(declaration, site, catalogue)?;
        for before in &tags {
            distinct(before, &tag)?;
        }
        tags.push(tag);
    }
    match site.tags.keys().find(|typed| !tags.iter().any(|tag| tag.is_called(typed))) {
        Some(typed) => Err(TagError::NoTag(typed.clone())),
        None => Ok(tags),
    }
}

fn distinct(one: &Tag, other: &Tag) -> Result<(), TagError> {
    let (id, other_id) = (one.declared.id, other.declared.id);
    if id == other_id {
        return Err(TagError::TwiceId(id, one.declared.name.clone(), other.declared.name.clone()));
    }
    let are_seen_apart = one.declared.space != other.declared.space
        && one.declared.space != Space::General
        && other.declared.space != Space::General;
    if are_seen_apart {
        return Ok(());
    }
    match other.names().find(|name| one.is_called(name.as_str())) {
        Some(name) => Err(TagError::Twice { name: name.to_string(), one: id, other: other_id }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declaration::parse;
    use condition::{Column, Type, Unit};

    fn catalogue() -> Catalogue {
        let share = Column::new("gpu", Type::Share, "", "gpu").in_unit(Unit::PERCENT);
        Catalogue::new([share, Column::new("load", Type::Number, "", "load")]).unwrap()
    }

    fn tag(id: u32, name: &str, more: &str) -> String {
        format!("[[tag]]\nid = {id}\nname = '{name}'\ngroup = 'g'\ndescription = 'It is so.'\n{more}\n")
    }

    fn checked(text: &str, site: &str) -> Result<Vec<Tag>, TagError> {
        check(&parse(text).unwrap(), &toml::from_str(site).unwrap(), &catalogue())
    }

    const LOW: &str = "criterion = 'gpu < low'\nparameters = { low = '5' }";

    #[test]
    fn the_sites_values_are_in_the_criterion() {
        let low = tag(1, "gpu LOW", LOW);
        let one =
            tag(2, "load ONE", "criterion = 'load between 1 - approximately * 1 and 1 + approximately'");
        for (site, first, second, available) in [
            ("", "gpu < 5%", "load between 0.75 and 1.25", true),
            (
                "approximately = 0.5\n['GPU_low'.parameters]\nlow = '7%'\n",
                "gpu < 7%",
                "load between 0.5 and 1.5",
                true,
            ),
            ("['gpu LOW']\navailable = false\n", "gpu < 5%", "load between 0.75 and 1.25", false),
        ] {
            let tags = checked(&format!("{low}{one}"), site).unwrap();
            let text = |at: usize| tags[at].criterion.as_ref().unwrap().to_string();
            assert_eq!((&*text(0), &*text(1), tags[0].available), (first, second, available), "{site}");
        }
    }

    #[test]
    fn homes_must_be_paths() {
        for homes in ["[]", "['home']", "['/home/*']", "['/home', '/']"] {
            let error = checked(&tag(1, "gpu LOW", LOW), &format!("homes = {homes}")).unwrap_err();
            assert!(matches!(error, TagError::NoHomes | TagError::Home(_)), "{homes}: {error}");
        }
    }

    #[test]
    fn a_criterion_of_a_space_is_about_its_jobs() {
        let text = |name: &str| Column::new(name, Type::Text, "", name);
        let share = Column::new("gpu", Type::Share, "", "gpu").in_unit(Unit::PERCENT);
        let catalogue = Catalogue::new([share, text("project"), text("user")]).unwrap();
        let criterion = |space: &str| {
            let declared = parse(&tag(1, "gpu LOW", &format!("space = \"{space}\"\n{LOW}"))).unwrap();
            Tag::check(&declared[0], &Site::default(), &catalogue).unwrap().criterion.unwrap().to_string()
        };
        assert_eq!(criterion("general"), "gpu < 5%");
        assert_eq!(criterion("project:o'x"), "project = 'o''x' and gpu < 5%");
        assert_eq!(criterion("personal:anna"), "user = 'anna' and gpu < 5%");
    }

    #[test]
    fn a_name_means_one_tag_of_those_that_somebody_sees() {
        let space = |id, space: &str| tag(id, "x", &format!("space = '{space}'"));
        let (physics, chemistry) = (space(1, "project:physics"), space(2, "project:chemistry"));
        assert_eq!(checked(&format!("{physics}{chemistry}"), "").unwrap().len(), 2);
        for other in [space(3, "project:physics"), space(3, "general")] {
            let error = checked(&format!("{physics}{other}"), "").unwrap_err().to_string();
            assert!(error.contains("`x` means both tag 1 and tag 3"), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let low = tag(1, "gpu LOW", LOW);
        for (more, site, said) in [
            (tag(1, "other", ""), "", "two tags have the id 1: `gpu LOW` and `other`"),
            (tag(2, "other", "aliases = ['GPU low']"), "", "`GPU low` means both tag 1 and tag 2"),
            (tag(2, "other", "criterion = 'cpu > 1'"), "", "tag `other`, criterion: no column `cpu`"),
            (tag(2, "other", "parameters = { a = '1' }"), "", "its criterion does not use the parameter `a`"),
            (tag(2, "other", "supposition = '{cpu}'"), "", "tag `other`, text: there is no column `cpu`"),
            (
                tag(2, "other", "criterion = 'load > a'\nparameters = { a = 'load' }"),
                "",
                "tag `other`: parameter `a`: expected one value",
            ),
            (String::new(), "approximately = 2", "`approximately` is 2"),
            (String::new(), "['gpu HIGH']\n", "the site names a tag that there is not: `gpu HIGH`"),
            (
                String::new(),
                "['gpu LOW'.parameters]\nlo = '1'\n",
                "tag `gpu LOW` has no parameter `lo`; there are: low",
            ),
            (
                String::new(),
                "['gpu LOW'.parameters]\nlow = '2h'\n",
                "tag `gpu LOW`, criterion: expected a share, such as 50%; this is a duration",
            ),
        ] {
            let error = checked(&format!("{low}{more}"), site).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
