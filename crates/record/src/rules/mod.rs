//! What may leave a user's process, as data: kept variables, secrets in arguments, programs to skip.
//!
//! The agent compiles the site's configuration into a packed table ([`Rules`]) and puts it beside its
//! socket, where every guest reads it at start; no rule is compiled into a guest except the defaults it
//! falls back to ([`defaults`]), for containers in which the file is not visible. The agent applies the same
//! rules to what it reads from `/proc` itself.
//!
//! The table, little endian; an entry is one length byte and that many bytes:
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | magic with version |
//! | 8 | 32 | bit set of the first two bytes of kept variables' names, hashed ([`bucket`]) |
//! | 40 | 6 × 4 | offset and length of each section, `u16` each, in the order of [`Section`] |
//! | 64 | 4 | bit set of the first letters of tokens |
//! | 68 | 28 × 2 | where each group of secret words begins ([`group`]), `u16` each |
//! | 124 | … | the sections' entries, the secret words by group |

#[cfg(feature = "std")]
mod deep;
pub mod defaults;
#[cfg(feature = "std")]
mod full;
mod names;
#[cfg(feature = "std")]
mod options;
mod redact;
#[cfg(feature = "std")]
mod shell;
#[cfg(feature = "std")]
mod value;

#[cfg(feature = "std")]
pub use deep::Deep;
pub use redact::{REDACTED, Redactor};

/// Begins every packed table.
pub const MAGIC: [u8; 8] = *b"JGRULES\x03";
/// Where the entries begin.
const HEADER: usize = WORD_GROUPS + 2 * GROUPS;
const BITS: usize = 8;
const SECTIONS: usize = 40;
const TOKEN_LETTERS: usize = 64;
const WORD_GROUPS: usize = 68;
/// Secret words by their last letter, those that end with none, and those that except from all others.
const GROUPS: usize = 28;
const EXCEPTIONS: usize = 27;
/// No packed table is larger; a guest reads it in one call.
pub const RULES_MAX: usize = 16 * 1024;

/// The kinds of rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Names of variables to keep; a trailing `*` stands for any ending.
    Env,
    /// Words that make an option's, variable's or parameter's name a secret's.
    Secret,
    /// Beginnings of well-known tokens.
    Token,
    /// `program option`: this program's option takes a secret.
    Option,
    /// Paths of programs that are not reported; a trailing `*` stands for any ending.
    SkipExe,
    /// Numbers of users that are not reported.
    SkipUid,
}

#[cfg(feature = "std")]
const ALL: [Section; 6] =
    [Section::Env, Section::Secret, Section::Token, Section::Option, Section::SkipExe, Section::SkipUid];

/// A packed table of rules, borrowed.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    table: &'a [u8],
}

impl Rules<'static> {
    /// The defaults, for a guest that finds no table.
    pub fn builtin() -> Self {
        Rules { table: &defaults::TABLE }
    }
}

impl<'a> Rules<'a> {
    /// Takes a packed table; `None` if it is not one.
    pub fn new(table: &'a [u8]) -> Option<Self> {
        (table.len() >= HEADER && table.starts_with(&MAGIC)).then_some(Rules { table })
    }

    /// The entries of one section. A damaged table gives fewer entries, never a fault.
    pub fn entries(&self, section: Section) -> Entries<'a> {
        let at = SECTIONS + 4 * section as usize;
        let rest = match (self.number(at), self.number(at + 2)) {
            (Some(start), Some(len)) => self.table.get(start..start + len).unwrap_or(&[]),
            _ => &[],
        };
        Entries { rest }
    }

    /// The secret words that end with this byte; most bytes have few.
    fn words_with_end(&self, byte: u8) -> Entries<'a> {
        self.words(names::letter_number(byte))
    }

    /// The words that say that a name is no secret's, with their `!`.
    fn exceptions(&self) -> Entries<'a> {
        self.words(EXCEPTIONS)
    }

    fn words(&self, group: usize) -> Entries<'a> {
        let section = SECTIONS + 4 * Section::Secret as usize;
        let end = match group {
            EXCEPTIONS => self.number(section).zip(self.number(section + 2)).map(|(start, len)| start + len),
            group => self.number(WORD_GROUPS + 2 * group + 2),
        };
        let range = self.number(WORD_GROUPS + 2 * group).zip(end);
        Entries { rest: range.and_then(|(start, end)| self.table.get(start..end)).unwrap_or(&[]) }
    }

    fn number(&self, at: usize) -> Option<usize> {
        let two = self.table.get(at..at + 2)?;
        Some(u16::from_le_bytes(two.try_into().ok()?) as usize)
    }

    /// The first letters of tokens, by bit.
    fn token_letters(&self) -> u32 {
        let four = self.table.get(TOKEN_LETTERS..TOKEN_LETTERS + 4).and_then(|four| four.try_into().ok());
        four.map_or(0, u32::from_le_bytes)
    }

    /// Whether a variable of this name is kept.
    pub fn keeps_variable(&self, name: &[u8]) -> bool {
        let (Some(&first), Some(&second)) = (name.first(), name.get(1)) else { return false };
        let bucket = bucket(first, second);
        let bits = self.table.get(BITS + bucket / 8).copied().unwrap_or(0);
        bits & (1 << (bucket % 8)) != 0
            && self.entries(Section::Env).any(|rule| rule.first() == Some(&first) && matches(rule, name))
    }

    /// Whether a program at this path is not to be reported.
    pub fn skips_exe(&self, path: &[u8]) -> bool {
        self.entries(Section::SkipExe).any(|rule| matches(rule, path))
    }

    /// Whether this user is not to be reported; the number as decimal text.
    pub fn skips_uid(&self, uid: &[u8]) -> bool {
        self.entries(Section::SkipUid).any(|rule| rule == uid)
    }
}

/// Iterates over a section's entries.
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&len, rest) = self.rest.split_first()?;
        let entry = rest.get(..len as usize)?;
        self.rest = rest.get(len as usize..)?;
        Some(entry)
    }
}

/// Where in the bit set a name is that begins with these bytes. Of a hundred variables a few dozen pass for
/// their first byte, and hardly any but the kept ones for two.
const fn bucket(first: u8, second: u8) -> usize {
    (first.wrapping_mul(5) ^ second) as usize
}

/// Marks the names that a rule is about. `X*` is about every name that begins with `X`.
const fn mark(table: &mut [u8], rule: &[u8]) {
    assert!(!rule.is_empty() && rule[0] != b'*', "a kept variable's name must begin with a letter");
    let mut second = 0;
    while second < 256 {
        if rule.len() < 2 || rule[1] == b'*' || rule[1] as usize == second {
            let bucket = bucket(rule[0], second as u8);
            table[BITS + bucket / 8] |= 1 << (bucket % 8);
        }
        second += 1;
    }
}

/// Marks the letter by which a token is told from most names.
const fn mark_letter(table: &mut [u8], section: usize, rule: &[u8]) {
    if section != Section::Token as usize {
        return;
    }
    let bits = names::letter(rule[0]).to_le_bytes();
    let mut i = 0;
    while i < bits.len() {
        table[TOKEN_LETTERS + i] |= bits[i];
        i += 1;
    }
}

/// The group in which a rule stands. Names are compared with the words that end like them only.
const fn group(section: usize, rule: &[u8]) -> usize {
    let last = rule[rule.len() - 1];
    match last {
        _ if section != Section::Secret as usize => 0,
        _ if rule[0] == b'!' => EXCEPTIONS,
        b'/' if rule.len() > 1 => names::letter_number(rule[rule.len() - 2]),
        last => names::letter_number(last),
    }
}

/// Notes where a group of secret words begins.
const fn note_group(table: &mut [u8], section: usize, group: usize, start: usize) {
    if section == Section::Secret as usize {
        table[WORD_GROUPS + 2 * group] = start as u8;
        table[WORD_GROUPS + 2 * group + 1] = (start >> 8) as u8;
    }
}

fn matches(rule: &[u8], name: &[u8]) -> bool {
    match rule.split_last() {
        Some((b'*', prefix)) => name.starts_with(prefix),
        _ => rule == name,
    }
}

/// Packs lists of rules, in the order of [`Section`], into a table; used at compile time for the defaults.
/// A rule longer than 255 bytes, or a table longer than `N`, does not compile.
const fn pack<const N: usize>(lists: [&[&str]; 6]) -> [u8; N] {
    let mut table = [0; N];
    let mut i = 0;
    while i < MAGIC.len() {
        table[i] = MAGIC[i];
        i += 1;
    }
    let mut at = HEADER;
    let mut section = 0;
    while section < lists.len() {
        let start = at;
        let mut part = 0;
        while part < GROUPS {
            note_group(&mut table, section, part, at);
            let mut rule = 0;
            while rule < lists[section].len() {
                let bytes = lists[section][rule].as_bytes();
                rule += 1;
                if group(section, bytes) != part {
                    continue;
                }
                assert!(bytes.len() < 256);
                if section == Section::Env as usize {
                    mark(&mut table, bytes);
                }
                mark_letter(&mut table, section, bytes);
                table[at] = bytes.len() as u8;
                let mut i = 0;
                while i < bytes.len() {
                    table[at + 1 + i] = bytes[i];
                    i += 1;
                }
                at += 1 + bytes.len();
            }
            part += 1;
        }
        let field = SECTIONS + 4 * section;
        let len = at - start;
        table[field] = start as u8;
        table[field + 1] = (start >> 8) as u8;
        table[field + 2] = len as u8;
        table[field + 3] = (len >> 8) as u8;
        section += 1;
    }
    table
}

/// How many bytes [`pack`] needs.
const fn packed_len(lists: [&[&str]; 6]) -> usize {
    let mut len = HEADER;
    let mut section = 0;
    while section < lists.len() {
        let mut rule = 0;
        while rule < lists[section].len() {
            len += 1 + lists[section][rule].len();
            rule += 1;
        }
        section += 1;
    }
    len
}

/// A site's rules, as lists.
#[cfg(feature = "std")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    lists: [Vec<String>; 6],
}

/// Why a site's rules cannot be packed.
#[cfg(feature = "std")]
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RuleError {
    /// Empty or longer than a length byte can say.
    #[error("rule `{0}` must have 1 to 255 bytes")]
    Length(String),
    /// The environment is an allow-list.
    #[error("a kept variable's name must not begin with `*`: that would keep everything")]
    Everything,
    /// More than a guest reads.
    #[error("the rules take {0} bytes; a guest reads at most {RULES_MAX}")]
    TooMany(usize),
}

#[cfg(feature = "std")]
impl Default for RuleSet {
    fn default() -> Self {
        let own = |list: &[&str]| list.iter().map(|rule| (*rule).to_owned()).collect();
        RuleSet { lists: defaults::LISTS.map(own) }
    }
}

#[cfg(feature = "std")]
impl RuleSet {
    /// Replaces one list.
    pub fn set(&mut self, section: Section, rules: Vec<String>) {
        self.lists[section as usize] = rules;
    }

    /// One list.
    pub fn list(&self, section: Section) -> &[String] {
        &self.lists[section as usize]
    }

    /// Packs the lists into a table for [`Rules::new`].
    pub fn pack(&self) -> Result<Vec<u8>, RuleError> {
        let mut table = vec![0; HEADER];
        table[..8].copy_from_slice(&MAGIC);
        for section in ALL {
            let start = table.len();
            if let Some(rule) = self.list(section).iter().find(|rule| rule.is_empty() || rule.len() > 255) {
                return Err(RuleError::Length(rule.clone()));
            }
            for part in 0..GROUPS {
                let start = table.len();
                note_group(&mut table, section as usize, part, start);
                let is_here = |rule: &&String| group(section as usize, rule.as_bytes()) == part;
                for rule in self.list(section).iter().filter(is_here) {
                    if section == Section::Env {
                        if rule.starts_with('*') {
                            return Err(RuleError::Everything);
                        }
                        mark(&mut table, rule.as_bytes());
                    }
                    mark_letter(&mut table, section as usize, rule.as_bytes());
                    table.push(rule.len() as u8);
                    table.extend_from_slice(rule.as_bytes());
                }
            }
            let field = SECTIONS + 4 * section as usize;
            let len = table.len() - start;
            table[field..field + 2].copy_from_slice(&(start as u16).to_le_bytes());
            table[field + 2..field + 4].copy_from_slice(&(len as u16).to_le_bytes());
        }
        if table.len() > RULES_MAX { Err(RuleError::TooMany(table.len())) } else { Ok(table) }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_builtin_table_is_the_packed_default() {
        assert_eq!(RuleSet::default().pack().unwrap(), defaults::TABLE);
        assert!(RULES_MAX >= 2 * defaults::TABLE.len());
    }

    #[test]
    fn variables_are_kept_by_name_or_prefix_only() {
        let rules = Rules::builtin();
        for (name, kept) in [
            ("OMP_NUM_THREADS", true),
            ("OMP_", true),
            ("LD_LIBRARY_PATH", true),
            ("LD_LIBRARY_PATH_64", false),
            ("AWS_SECRET_ACCESS_KEY", false),
            ("HOME", false),
            ("", false),
        ] {
            assert_eq!(rules.keeps_variable(name.as_bytes()), kept, "{name}");
        }
    }

    #[test]
    fn a_rule_must_fit() {
        let mut rules = RuleSet::default();
        rules.set(Section::SkipExe, vec![String::new()]);
        assert_eq!(rules.pack(), Err(RuleError::Length(String::new())));
        rules.set(Section::Env, vec!["*".into()]);
        assert_eq!(rules.pack(), Err(RuleError::Everything));
        rules.set(Section::Env, vec!["X*".into(), "Yz".into()]);
        rules.set(Section::SkipExe, vec![]);
        let table = rules.pack().unwrap();
        let packed = Rules::new(&table).unwrap();
        let kept = ["XA", "X\u{ff}", "Yz"].map(|name| packed.keeps_variable(name.as_bytes()));
        assert_eq!(kept, [true; 3]);
        assert!(!packed.keeps_variable(b"Yy") && !packed.keeps_variable(b"Y"));
        rules.set(Section::SkipExe, vec!["x".repeat(255); 80]);
        assert!(matches!(rules.pack(), Err(RuleError::TooMany(_))));
    }

    proptest! {
        #[test]
        fn a_damaged_table_never_faults(flip in 0usize..defaults::TABLE.len(), to: u8, cut in 0usize..defaults::TABLE.len()) {
            let mut table = defaults::TABLE.to_vec();
            table[flip] = to;
            table.truncate(cut);
            if let Some(rules) = Rules::new(&table) {
                for section in ALL {
                    prop_assert!(rules.entries(section).count() <= table.len());
                }
                rules.keeps_variable(b"OMP_NUM_THREADS");
            }
        }
    }
}
