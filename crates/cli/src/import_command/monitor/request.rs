//! One HTTP request, read with bounds of size and time, whoever sends it and however slowly.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use httparse::Status;
use import::monitor::Dropped;

use crate::import_command::stop::Stop;

/// No head is longer, and no line before a chunk.
const HEAD_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
const CHUNK_HEAD_MAX: usize = 1 << 10;
/// So much is read at once.
const PIECE: usize = 64 << 10;
/// How often is looked whether it is to stop.
const LOOK: Duration = Duration::from_millis(200);

/// What a request may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub head_time: Duration,
    /// From the end of the head.
    pub body_time: Duration,
    /// As it comes, and again as it is when it is decoded.
    pub body_bytes: usize,
    /// Of all bodies that are being read.
    pub all_bytes: usize,
}

/// Why a request is not taken: its status, and in words.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub text: String,
    /// What is counted: something was sent, and is not taken.
    pub dropped: Option<Dropped>,
    pub is_json: bool,
}

impl Refusal {
    pub fn new(status: u16, text: impl Into<String>) -> Refusal {
        Refusal { status, text: text.into(), dropped: None, is_json: false }
    }

    pub fn json(status: u16, value: &serde_json::Value) -> Refusal {
        Refusal { is_json: true, ..Refusal::new(status, value.to_string()) }
    }

    pub fn counted(self, why: Dropped) -> Refusal {
        Refusal { dropped: Some(why), ..self }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        let status = if error.kind() == ErrorKind::TimedOut { 408 } else { 400 };
        Refusal::new(status, format!("the request breaks off: {error}"))
    }
}

/// What the head says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub is_post: bool,
    pub path: String,
    pub authorization: Option<Vec<u8>>,
    length: Option<usize>,
    is_chunked: bool,
    expects_continue: bool,
    coding: Coding,
}

/// How a body is packed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Coding {
    #[default]
    Plain,
    Gzip,
    Other(String),
}

impl Coding {
    fn named(value: &[u8]) -> Coding {
        match String::from_utf8_lossy(value).to_ascii_lowercase().as_str() {
            "identity" => Coding::Plain,
            "gzip" | "x-gzip" => Coding::Gzip,
            other => Coding::Other(other.to_owned()),
        }
    }
}

/// The sending side of a connection.
pub struct Sender<'a> {
    pub stream: &'a TcpStream,
    pub bounds: Bounds,
    pub stop: &'a Stop,
    /// Bytes of all bodies that are being read.
    pub held: &'a AtomicUsize,
    buffer: Vec<u8>,
    until: Instant,
}

impl<'a> Sender<'a> {
    pub fn new(stream: &'a TcpStream, bounds: Bounds, stop: &'a Stop, held: &'a AtomicUsize) -> Sender<'a> {
        let until = Instant::now() + bounds.head_time;
        Sender { stream, bounds, stop, held, buffer: Vec::new(), until }
    }

    /// Reads more, by the end of the time. One timeout for each read would let a byte a second go on for ever.
    fn fill(&mut self) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stop.is_set() {
                return Err(io::Error::new(ErrorKind::TimedOut, "it takes too long"));
            }
            self.stream.set_read_timeout(Some(left.min(LOOK)))?;
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.buffer.extend_from_slice(&piece[..n]);
                    return Ok(());
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn head(&mut self) -> Result<Head, Refusal> {
        loop {
            if let Some((head, len)) = parse_head(&self.buffer)? {
                self.buffer.drain(..len);
                return Ok(head);
            }
            if self.buffer.len() > HEAD_MAX {
                return Err(Refusal::new(431, format!("a head may have {HEAD_MAX} bytes")));
            }
            self.fill()?;
        }
    }

    pub fn body(&mut self, head: &Head) -> Result<Body<'a>, Refusal> {
        self.until = Instant::now() + self.bounds.body_time;
        let mut body = Body { bytes: Vec::new(), bounds: self.bounds, held: self.held };
        if let Coding::Other(name) = &head.coding {
            let text = format!("Content-Encoding `{name}` is not read: use gzip or identity");
            return Err(Refusal::new(415, text).counted(Dropped::Malformed));
        }
        if head.length.is_some_and(|length| length > self.bounds.body_bytes) {
            return Err(body.too_long());
        }
        if head.expects_continue {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        match (head.length, head.is_chunked) {
            (Some(length), false) => self.copy(length, &mut body)?,
            (None, true) => self.copy_chunks(&mut body)?,
            (None, false) => return Err(Refusal::new(411, "the request does not say how long it is")),
            (Some(_), true) => return Err(Refusal::new(400, "the request says in two ways how long it is")),
        }
        if head.coding == Coding::Gzip { body.unpacked() } else { Ok(body) }
    }

    fn copy(&mut self, mut length: usize, body: &mut Body) -> Result<(), Refusal> {
        while length > 0 {
            if self.buffer.is_empty() {
                self.fill()?;
            }
            let piece = length.min(self.buffer.len());
            body.push(&self.buffer[..piece])?;
            self.buffer.drain(..piece);
            length -= piece;
        }
        Ok(())
    }

    /// What comes behind the last chunk does not matter: the connection ends with the answer.
    fn copy_chunks(&mut self, body: &mut Body) -> Result<(), Refusal> {
        let wrong = || Refusal::new(400, "a chunk does not begin with its size");
        loop {
            match httparse::parse_chunk_size(&self.buffer) {
                Ok(Status::Complete((_, 0))) => return Ok(()),
                Ok(Status::Complete((used, size))) => {
                    self.buffer.drain(..used);
                    self.copy(usize::try_from(size).map_err(|_| body.too_long())?, body)?;
                    while self.buffer.len() < 2 {
                        self.fill()?;
                    }
                    if !self.buffer.starts_with(b"\r\n") {
                        return Err(wrong());
                    }
                    self.buffer.drain(..2);
                }
                Ok(Status::Partial) if self.buffer.len() <= CHUNK_HEAD_MAX => self.fill()?,
                _ => return Err(wrong()),
            }
        }
    }
}

/// A timeout or a signal, after which a read is tried again.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// A body, counted among those that are held for as long as it lives.
pub struct Body<'a> {
    pub bytes: Vec<u8>,
    bounds: Bounds,
    held: &'a AtomicUsize,
}

impl<'a> Body<'a> {
    /// Decoded piece by piece, so that what stands for more than a body may have is never held.
    fn unpacked(&self) -> Result<Body<'a>, Refusal> {
        let mut plain = Body { bytes: Vec::new(), bounds: self.bounds, held: self.held };
        let mut decoder = MultiGzDecoder::new(&self.bytes[..]);
        let mut piece = vec![0; PIECE];
        loop {
            match decoder.read(&mut piece) {
                Ok(0) => return Ok(plain),
                Ok(count) => plain.push(&piece[..count])?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let refusal = Refusal::new(400, format!("the body is not gzip: {error}"));
                    return Err(refusal.counted(Dropped::Malformed));
                }
            }
        }
    }

    fn push(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        if self.bytes.len() + piece.len() > self.bounds.body_bytes {
            return Err(self.too_long());
        }
        self.bytes.extend_from_slice(piece);
        if self.held.fetch_add(piece.len(), Ordering::Relaxed) + piece.len() > self.bounds.all_bytes {
            return Err(Refusal::new(503, "too many requests at once"));
        }
        Ok(())
    }

    fn too_long(&self) -> Refusal {
        let text = format!("a request may have {} bytes, also when it is decoded", self.bounds.body_bytes);
        Refusal::new(413, text).counted(Dropped::TooLong)
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// The head and its length; `None` if it is not whole yet.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let wrong = |error: httparse::Error| Refusal::new(400, format!("not a request: {error}"));
    let Status::Complete(len) = request.parse(bytes).map_err(wrong)? else { return Ok(None) };
    let mut head = Head {
        is_post: request.method == Some("POST"),
        path: request.path.unwrap_or_default().to_owned(),
        ..Head::default()
    };
    for header in request.headers {
        let value = header.value.trim_ascii();
        match header.name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                head.length =
                    Some(length.ok_or_else(|| Refusal::new(400, "Content-Length is not a number"))?);
            }
            "content-encoding" => head.coding = Coding::named(value),
            "transfer-encoding" => head.is_chunked = value.eq_ignore_ascii_case(b"chunked"),
            "expect" => head.expects_continue = value.eq_ignore_ascii_case(b"100-continue"),
            "authorization" => head.authorization = Some(value.to_vec()),
            _ => {}
        }
    }
    Ok(Some((head, len)))
}
