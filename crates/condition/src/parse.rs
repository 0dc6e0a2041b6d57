//! Tokens to syntax, one function per level of binding: `or`, `and`, `not`, comparisons, sums, products, signs.

use crate::error::{Fault, Problem, Span};
use crate::expr::{Comparison, Function, Operator};
use crate::limits::MAX_DEPTH;
use crate::syntax::{Node, Syntax};
use crate::token::{Keyword, Token, What, tokens};

type Parsed = Result<Node, Fault>;

pub(crate) fn parse(text: &str) -> Parsed {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    let node = parser.any()?;
    match parser.peek().what {
        What::End => Ok(node),
        _ => Err(parser.unexpected("`and`, `or` or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// The last is the end, which is never taken.
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn is(&self, what: &What) -> bool {
        self.peek().what == *what
    }

    /// Takes the token if it is this one.
    fn take(&mut self, what: &What) -> bool {
        let is = self.is(what);
        self.at += usize::from(is);
        is
    }

    fn take_word(&mut self, word: Keyword) -> bool {
        self.take(&What::Keyword(word))
    }

    fn need(&mut self, what: &What, said: &'static str) -> Result<Span, Fault> {
        let span = self.peek().span.clone();
        if self.take(what) { Ok(span) } else { Err(self.unexpected(said)) }
    }

    fn unexpected(&self, expected: &'static str) -> Fault {
        let span = &self.peek().span;
        let found = match &self.peek().what {
            What::End => "the end".into(),
            // The place is shown anyway.
            _ => format!("`{}`", self.text[span.clone()].chars().take(20).collect::<String>()),
        };
        Fault::new(span, Problem::Expected { expected, found })
    }

    /// One level deeper: nothing that was typed may exhaust the stack.
    fn deeper(&mut self, inside: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth == MAX_DEPTH {
            return Err(Fault::new(&self.peek().span, Problem::TooDeep(MAX_DEPTH)));
        }
        self.depth += 1;
        let node = inside(self)?;
        self.depth -= 1;
        Ok(node)
    }

    /// A node from `start` up to the last token taken. Terms of a sum make levels, too.
    fn node(&self, start: usize, what: Syntax) -> Parsed {
        let end = self.tokens[self.at.saturating_sub(1)].span.end;
        let node = Node::new(start..end, what);
        if node.depth > MAX_DEPTH {
            Err(Fault::new(&node.span, Problem::TooDeep(MAX_DEPTH)))
        } else {
            Ok(node)
        }
    }

    fn any(&mut self) -> Parsed {
        self.chain(Keyword::Or, Self::all, Syntax::Any)
    }

    fn all(&mut self) -> Parsed {
        self.chain(Keyword::And, Self::not, Syntax::All)
    }

    fn chain(
        &mut self,
        word: Keyword,
        part: fn(&mut Self) -> Parsed,
        make: fn(Vec<Node>) -> Syntax,
    ) -> Parsed {
        let first = part(self)?;
        if !self.is(&What::Keyword(word)) {
            return Ok(first);
        }
        let start = first.span.start;
        let mut parts = vec![first];
        while self.take_word(word) {
            parts.push(part(self)?);
        }
        self.node(start, make(parts))
    }

    fn not(&mut self) -> Parsed {
        let start = self.peek().span.start;
        if !self.take_word(Keyword::Not) {
            return self.predicate();
        }
        let inner = self.deeper(Self::not)?;
        self.node(start, Syntax::Not(Box::new(inner)))
    }

    /// A comparison, or what stands where one could.
    fn predicate(&mut self) -> Parsed {
        let left = self.sum()?;
        let start = left.span.start;
        let node = if let Some(comparison) = self.comparison() {
            self.not_unknown()?;
            let right = self.sum()?;
            self.node(start, Syntax::Compare(Box::new(left), comparison, Box::new(right)))?
        } else if self.take_word(Keyword::Is) {
            let is_known = self.known()?;
            self.node(start, Syntax::Known(Box::new(left), is_known))?
        } else {
            self.membership(left)?
        };
        match self.comparison() {
            Some(_) => Err(Fault::new(&self.tokens[self.at - 1].span, Problem::Chained)),
            None => Ok(node),
        }
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let What::Sign(sign) = self.peek().what else { return None };
        let comparison = Comparison::ALL.into_iter().find(|comparison| comparison.sign() == sign)?;
        self.at += 1;
        Some(comparison)
    }

    /// Whoever writes `= null` would never get a row.
    fn not_unknown(&self) -> Result<(), Fault> {
        match self.peek().what {
            What::Keyword(Keyword::Unknown | Keyword::Known) => {
                Err(Fault::new(&self.peek().span, Problem::ComparedWithUnknown))
            }
            _ => Ok(()),
        }
    }

    /// After `is`.
    fn known(&mut self) -> Result<bool, Fault> {
        let is_not = self.take_word(Keyword::Not);
        if self.take_word(Keyword::Known) {
            return Ok(!is_not);
        }
        self.need(&What::Keyword(Keyword::Unknown), "`known` or `unknown`")?;
        Ok(is_not)
    }

    /// `in`, `between` and `like`, with `not` before them or without; or only what stands to the left.
    fn membership(&mut self, left: Node) -> Parsed {
        let start = left.span.start;
        let is_not = self.take_word(Keyword::Not);
        let left = Box::new(left);
        let what = if self.take_word(Keyword::In) {
            self.need(&What::Sign("("), "`(` and a list")?;
            Syntax::In(left, self.list()?)
        } else if self.take_word(Keyword::Between) {
            let low = self.sum()?;
            self.need(&What::Keyword(Keyword::And), "`and` and the upper bound")?;
            Syntax::Between(left, Box::new(low), Box::new(self.sum()?))
        } else if self.take_word(Keyword::Like) {
            Syntax::Like(left, Box::new(self.sum()?))
        } else if is_not {
            return Err(self.unexpected("`in`, `between` or `like`"));
        } else {
            return Ok(*left);
        };
        let node = self.node(start, what)?;
        if is_not { self.node(start, Syntax::Not(Box::new(node))) } else { Ok(node) }
    }

    /// After `(`: at least one, up to `)`.
    fn list(&mut self) -> Result<Vec<Node>, Fault> {
        let mut items = vec![self.deeper(Self::any)?];
        while self.take(&What::Sign(",")) {
            items.push(self.deeper(Self::any)?);
        }
        self.need(&What::Sign(")"), "`,` or `)`")?;
        Ok(items)
    }

    fn sum(&mut self) -> Parsed {
        self.operators(&[Operator::Plus, Operator::Minus], Self::product)
    }

    fn product(&mut self) -> Parsed {
        self.operators(&[Operator::Times, Operator::Over], Self::signed)
    }

    fn operators(&mut self, operators: &[Operator], part: fn(&mut Self) -> Parsed) -> Parsed {
        let mut left = part(self)?;
        loop {
            let found = operators.iter().find(|operator| self.is(&What::Sign(operator.sign())));
            let Some(operator) = found else { return Ok(left) };
            self.at += 1;
            let right = part(self)?;
            let start = left.span.start;
            left = self.node(start, Syntax::Arithmetic(Box::new(left), *operator, Box::new(right)))?;
        }
    }

    fn signed(&mut self) -> Parsed {
        let start = self.peek().span.start;
        if !self.take(&What::Sign("-")) {
            return self.primary();
        }
        let inner = self.deeper(Self::signed)?;
        self.node(start, Syntax::Negate(Box::new(inner)))
    }

    fn primary(&mut self) -> Parsed {
        let Token { span, what } = self.peek().clone();
        match what {
            What::Literal(literal) => {
                self.at += 1;
                self.node(span.start, Syntax::Literal(literal))
            }
            What::Name => {
                self.at += 1;
                self.name(span)
            }
            // Where a value is expected it is not the end of a `case`, but the column.
            What::Keyword(Keyword::End) => {
                self.at += 1;
                self.node(span.start, Syntax::Name(self.text[span].to_owned()))
            }
            What::Sign("(") => {
                self.at += 1;
                let inner = self.deeper(Self::any)?;
                let end = self.need(&What::Sign(")"), "`)`")?.end;
                Ok(Node { span: span.start..end, ..inner })
            }
            What::Keyword(Keyword::Case) => self.deeper(Self::case),
            _ => Err(self.unexpected("a column, a value or `(`")),
        }
    }

    /// A column, or a function if `(` follows.
    fn name(&mut self, span: Span) -> Parsed {
        let name = &self.text[span.clone()];
        if !self.take(&What::Sign("(")) {
            return self.node(span.start, Syntax::Name(name.to_owned()));
        }
        let function = Function::ALL.into_iter().find(|function| function.name().eq_ignore_ascii_case(name));
        let arguments = self.list()?;
        let what = match function {
            Some(function) => Syntax::Call(function, arguments),
            None => Syntax::Ask(name.to_owned(), span.clone(), arguments),
        };
        self.node(span.start, what)
    }

    fn case(&mut self) -> Parsed {
        let start = self.peek().span.start;
        self.at += 1;
        let mut branches = Vec::new();
        let mut last = None;
        while self.take_word(Keyword::When) {
            let when = self.any()?;
            self.need(&What::Keyword(Keyword::Then), "`then`")?;
            branches.push((when, self.any()?));
        }
        if branches.is_empty() {
            return Err(self.unexpected("`when`"));
        }
        if self.take_word(Keyword::Else) {
            last = Some(Box::new(self.any()?));
        }
        self.need(&What::Keyword(Keyword::End), "`when`, `else` or `end`")?;
        self.node(start, Syntax::Case(branches, last))
    }
}
