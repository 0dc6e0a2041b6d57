//! Tags: words for jobs. Each is declared with a criterion, a condition over the columns of jobs, or is set by people. No I/O and no
//! database: whoever has the jobs gives their columns.
//!
//! * [`name`] says which spellings mean the same tag.
//! * [`declaration`] is a tag as it is written in a file, by us or by a site.
//! * [`tag`] is one that makes sense: its criterion is a condition, its texts name columns that there are.
//! * `homes` puts the site's home directories into criteria.
//! * [`text`] fills a job's values into what a tag says.
//! * [`search`] are combinations of tags that have a name.
//! * [`space`] says whose a tag is.
//! * [`shipped`] are those that everybody has, in `tags/*.toml` at the root of the project.

pub mod declaration;
mod homes;
pub mod name;
pub mod search;
pub mod shipped;
pub mod space;
pub mod tag;
pub mod text;

pub use declaration::{Declaration, FileError, Kind, Level, Site};
pub use name::Name;
pub use search::Search;
pub use space::Space;
pub use tag::{Tag, TagError};
pub use text::Text;
