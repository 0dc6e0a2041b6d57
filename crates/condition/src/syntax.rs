//! A condition as it is written: what belongs together, with places, before anybody asks whether it makes sense.

use crate::error::Span;
use crate::expr::{Comparison, Function, Operator};
use crate::token::Literal;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) what: Syntax,
    /// How many levels there are, this one included.
    pub(crate) depth: usize,
}

#[derive(Debug)]
pub(crate) enum Syntax {
    Literal(Literal),
    Name(String),
    Negate(Box<Node>),
    Arithmetic(Box<Node>, Operator, Box<Node>),
    Compare(Box<Node>, Comparison, Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    In(Box<Node>, Vec<Node>),
    Between(Box<Node>, Box<Node>, Box<Node>),
    Like(Box<Node>, Box<Node>),
    /// `is known`, or with false `is unknown`.
    Known(Box<Node>, bool),
    Case(Vec<(Node, Node)>, Option<Box<Node>>),
    Call(Function, Vec<Node>),
    /// Something that only the catalogue may know; the span is that of its name.
    Ask(String, Span, Vec<Node>),
}

impl Node {
    pub(crate) fn new(span: Span, what: Syntax) -> Node {
        let depth = 1 + what.depth_below();
        Node { span, what, depth }
    }
}

impl Syntax {
    fn depth_below(&self) -> usize {
        let deepest = |nodes: &[Node]| nodes.iter().map(|node| node.depth).max().unwrap_or(0);
        match self {
            Syntax::Literal(_) | Syntax::Name(_) => 0,
            Syntax::Negate(inner) | Syntax::Not(inner) | Syntax::Known(inner, _) => inner.depth,
            Syntax::Arithmetic(left, _, right)
            | Syntax::Compare(left, _, right)
            | Syntax::Like(left, right) => left.depth.max(right.depth),
            Syntax::All(nodes) | Syntax::Any(nodes) | Syntax::Call(_, nodes) | Syntax::Ask(_, _, nodes) => {
                deepest(nodes)
            }
            Syntax::In(left, nodes) => left.depth.max(deepest(nodes)),
            Syntax::Between(value, low, high) => value.depth.max(low.depth).max(high.depth),
            Syntax::Case(branches, last) => {
                let branches = branches.iter().map(|(when, then)| when.depth.max(then.depth)).max();
                branches.unwrap_or(0).max(last.as_ref().map_or(0, |last| last.depth))
            }
        }
    }
}
