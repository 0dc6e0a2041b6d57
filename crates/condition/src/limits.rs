//! How much a condition may be. Whatever walks over one calls itself once per level, so the depth is what the stack has
//! to bear; a step may look at all that is below it, so the work is at most depth times size.

/// Bytes of the text, and of the canonical text.
pub const MAX_TEXT: usize = 16 * 1024;
/// Words, signs and literals.
pub const MAX_TOKENS: usize = 4000;
/// Levels of the expression: parentheses, calls, and the terms of a sum or product.
pub const MAX_DEPTH: usize = 64;
/// Characters of a pattern with wildcards, and how many of these: a regular expression takes time in proportion to its length.
pub const MAX_PATTERN: usize = 256;
pub const MAX_WILDCARDS: usize = 32;

/// What a condition that a user asks may cost for each row. A site's own criteria are not bound by it: they are evaluated together,
/// and not while somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Questions to the catalogue's predicates, such as `uses('libblas*')`: each looks through another table.
    pub predicates: usize,
    /// Patterns of `like`.
    pub patterns: usize,
    /// Different columns: each is read, and some are joined.
    pub columns: usize,
    /// Everything that is computed: columns, comparisons, functions; values that are written are not.
    pub operations: usize,
}

/// Of a single condition. 500 questions needed more memory than the database had.
pub const ASKED: Cost = Cost { predicates: 8, patterns: 32, columns: 64, operations: 1000 };
