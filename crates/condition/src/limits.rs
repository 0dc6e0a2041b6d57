//! How much a condition may be. Whatever walks over one calls itself once per level, so the depth is what the stack has
//! to bear; a step may look at all that is below it, so the work is at most depth times size.

/// Bytes of the text, and of the canonical text.
pub const MAX_TEXT: usize = 16 * 1024;
/// Words, signs and literals.
pub const MAX_TOKENS: usize = 4000;
/// Levels of the expression: parentheses, calls, and the terms of a sum or product.
pub const MAX_DEPTH: usize = 64;
