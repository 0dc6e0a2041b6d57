//! What is written for people and programs: to standard output until nobody reads on, to standard error whether or not anybody does.
//!
//! A reader that leaves early (`… --json | head -1`) has read enough, which is success. Writers wrap the error in one of their own, and a
//! server that hangs up gives the same kind of error, so it is noted here, where it happens, that it was our own output.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody has closed our standard output.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Standard output; it notes when nobody reads on.
#[derive(Debug)]
pub struct Output(io::Stdout);

#[allow(clippy::disallowed_methods, reason = "the one place")]
pub fn stdout() -> Output {
    Output(io::stdout())
}

/// Whether nobody reads our output any more.
pub fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

impl Output {
    pub fn is_terminal(&self) -> bool {
        self.0.is_terminal()
    }

    /// How many columns and lines the terminal has; `None` where the output goes elsewhere.
    pub fn size(&self) -> Option<(usize, usize)> {
        if !self.is_terminal() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(&self.0).ok()?;
        Some((size.ws_col.into(), size.ws_row.into()))
    }
}

/// The same error, noted if it says that nobody reads on.
fn noted<T>(result: io::Result<T>) -> io::Result<T> {
    if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        IS_CLOSED.store(true, Ordering::Relaxed);
    }
    result
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noted(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(self.0.flush())
    }
}

/// Writes a line to standard error. Not as `eprintln!` does it, which panics where nobody reads.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}
