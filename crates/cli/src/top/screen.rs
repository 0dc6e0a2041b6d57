//! The terminal: taken whole, and given back as it was, however the view ends.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::keys::Key;
use super::view::Line;
use crate::output;

/// A signal is noticed within this time.
const SLICE: Duration = Duration::from_millis(200);

/// What came of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    Key(Key),
    Resized,
    /// A signal wants the end, or the terminal is gone.
    End,
    Nothing,
}

/// The terminal, while it is ours.
pub struct Screen {
    ended: Arc<AtomicBool>,
    /// What is on it.
    shown: Vec<Line>,
}

impl Screen {
    pub fn take() -> io::Result<Screen> {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            signal_hook::flag::register(signal, ended.clone())?;
        }
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        terminal::enable_raw_mode()?;
        let screen = Screen { ended, shown: Vec::new() };
        execute!(output::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Shows a page that is made for the terminal's size, if it is another one than before.
    pub fn draw(&mut self, page: impl FnOnce(usize, usize) -> Vec<Line>) -> io::Result<()> {
        let (width, height) = terminal::size()?;
        let page = page(width.into(), height.into());
        if page == self.shown {
            return Ok(());
        }
        let mut out = io::BufWriter::new(output::stdout());
        for (line, at) in page.iter().zip(0..) {
            let attribute = if line.is_bright { Attribute::Bold } else { Attribute::Reset };
            queue!(out, cursor::MoveTo(0, at), SetAttribute(attribute), Print(&line.text))?;
            queue!(out, SetAttribute(Attribute::Reset), Clear(ClearType::UntilNewLine))?;
        }
        out.flush()?;
        self.shown = page;
        Ok(())
    }

    /// Waits for a key, for a moment at most.
    pub fn wait(&mut self, longest: Duration) -> io::Result<Input> {
        // Of a terminal that is gone crossterm reads nothing for ever, so it is asked only while there is one.
        let is_gone = !wait_for_terminal(longest.min(SLICE))?;
        if is_gone || self.ended.load(Ordering::Relaxed) {
            return Ok(Input::End);
        }
        if !event::poll(Duration::ZERO)? {
            return Ok(Input::Nothing);
        }
        Ok(match event::read()? {
            Event::Key(key) => meaning(key).map_or(Input::Nothing, Input::Key),
            Event::Resize(..) => {
                // Terminals move lines about when they change their size.
                execute!(output::stdout(), Clear(ClearType::All))?;
                self.shown.clear();
                Input::Resized
            }
            _ => Input::Nothing,
        })
    }
}

/// Waits until there is something to read, or a signal; `false` if the terminal is gone.
fn wait_for_terminal(longest: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let longest = Timespec::try_from(longest).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&longest)) {
        Ok(_) => Ok(!fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn meaning(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::CONTROL) => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

/// What fails here fails with the terminal gone.
fn give_back() {
    let _ = execute!(output::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = terminal::disable_raw_mode();
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}
