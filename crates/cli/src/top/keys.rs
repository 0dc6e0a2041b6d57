//! What keys do.

use crate::args::Sort;

/// A key, as far as it means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
}

/// What is being typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typing {
    /// A text that jobs must have somewhere.
    Text,
    /// The user whose jobs are shown.
    User,
}

/// What is shown, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub sort: Sort,
    pub text: String,
    pub user: String,
    pub typing: Option<Typing>,
    /// Rows that are scrolled away above.
    pub skip: usize,
}

/// As many rows as a page key moves.
const PAGE: usize = 10;
/// Nobody types more.
const TYPED_MAX: usize = 100;

impl State {
    pub fn new(sort: Sort, user: Option<String>) -> State {
        State { sort, text: String::new(), user: user.unwrap_or_default(), typing: None, skip: 0 }
    }

    /// Takes a key; `false` if it ends the view.
    pub fn press(&mut self, key: Key) -> bool {
        match (self.typing, key) {
            (_, Key::Interrupt) => return false,
            (Some(typing), key) => self.edit(typing, key),
            (None, Key::Char('q')) => return false,
            (None, key) => self.command(key),
        }
        true
    }

    fn edit(&mut self, typing: Typing, key: Key) {
        self.skip = 0;
        let text = match typing {
            Typing::Text => &mut self.text,
            Typing::User => &mut self.user,
        };
        match key {
            Key::Char(c) if text.len() < TYPED_MAX => text.push(c),
            Key::Backspace => drop(text.pop()),
            Key::Enter => self.typing = None,
            Key::Escape => {
                text.clear();
                self.typing = None;
            }
            _ => {}
        }
    }

    fn command(&mut self, key: Key) {
        match key {
            Key::Char('/') => self.typing = Some(Typing::Text),
            Key::Char('U') => self.typing = Some(Typing::User),
            Key::Char(c) => {
                if let Some(sort) = by_key(c) {
                    (self.sort, self.skip) = (sort, 0);
                }
            }
            Key::Escape => (self.text, self.user, self.skip) = Default::default(),
            Key::Up => self.skip = self.skip.saturating_sub(1),
            Key::Down => self.skip = self.skip.saturating_add(1),
            Key::PageUp => self.skip = self.skip.saturating_sub(PAGE),
            Key::PageDown => self.skip = self.skip.saturating_add(PAGE),
            Key::Home => self.skip = 0,
            Key::End => self.skip = usize::MAX,
            Key::Enter | Key::Backspace | Key::Interrupt => {}
        }
    }
}

fn by_key(c: char) -> Option<Sort> {
    Some(match c {
        'c' => Sort::Cpu,
        'm' => Sort::Memory,
        'i' => Sort::Io,
        'g' => Sort::Gpu,
        't' => Sort::Time,
        'u' => Sort::User,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_what_they_do() {
        let start = || State::new(Sort::Cpu, None);
        for (typed, expected) in [
            ("", start()),
            ("m", State { sort: Sort::Memory, ..start() }),
            ("ig", State { sort: Sort::Gpu, ..start() }),
            ("x", start()),
            // What is typed is text, whatever else it would do.
            ("/qm", State { text: "qm".into(), typing: Some(Typing::Text), ..start() }),
            ("/ab<\nt", State { text: "a".into(), sort: Sort::Time, ..start() }),
            ("Ubob\n", State { user: "bob".into(), ..start() }),
            ("/ab\x1b", start()),
            ("Ubob\n\x1b", start()),
            ("vvv^", State { skip: 2, ..start() }),
            ("vvvc", start()),
            ("vv/", State { skip: 2, typing: Some(Typing::Text), ..start() }),
        ] {
            let mut state = start();
            for c in typed.chars() {
                let key = match c {
                    '\n' => Key::Enter,
                    '\x1b' => Key::Escape,
                    '<' => Key::Backspace,
                    'v' => Key::Down,
                    '^' => Key::Up,
                    c => Key::Char(c),
                };
                assert!(state.press(key), "{typed:?}");
            }
            assert_eq!(state, expected, "{typed:?}");
        }
        assert!(!start().press(Key::Char('q')));
        assert!(!State { typing: Some(Typing::Text), ..start() }.press(Key::Interrupt));
        let mut state = State { skip: usize::MAX, ..start() };
        assert!(state.press(Key::PageDown) && state.press(Key::Down));
    }
}
