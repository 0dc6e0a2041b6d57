//! Posts, as they come: each on a thread of its own, with a bounded number of them for each sender and in all, so that one who is
//! slow keeps nobody waiting.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use import::monitor::{Dropped, Take};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::gate::Gate;
use super::request::{Bounds, Refusal, Sender};
use super::{Shared, lock};
use crate::import_command::stop::Stop;

const BOUNDS: Bounds = Bounds {
    head_time: Duration::from_secs(10),
    body_time: Duration::from_secs(30),
    body_bytes: 32 << 20,
    all_bytes: 256 << 20,
};
/// Connections at once, and of one address: a relay may send for many nodes.
const CONNECTIONS: usize = 256;
const CONNECTIONS_OF_ONE: usize = 64;
const STACK: usize = 256 << 10;
/// How often is looked whether it is to stop.
const LOOK_NS: i64 = 200_000_000;
/// How long the rest of a request that is refused is read.
const REST: Duration = Duration::from_secs(1);
/// How long a sender may take to read the answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Listens.
pub fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What is done with requests.
struct Service<'a, T> {
    bounds: Bounds,
    gate: &'a Gate,
    /// Counts what is refused.
    feed: &'a Shared,
    stop: &'a Stop,
    take: T,
    places: Places,
    held: AtomicUsize,
}

/// Gives the path and body of each post, until it is to stop, and answers with their refusal. A post that may not be sent is
/// given to nobody.
pub fn serve(
    listener: &TcpListener,
    gate: &Gate,
    feed: &Shared,
    stop: &Stop,
    take: impl Fn(&str, &[u8]) -> Result<(), Refusal> + Sync,
) -> Result<()> {
    serve_within(BOUNDS, listener, gate, feed, stop, take)
}

fn serve_within(
    bounds: Bounds,
    listener: &TcpListener,
    gate: &Gate,
    feed: &Shared,
    stop: &Stop,
    take: impl Fn(&str, &[u8]) -> Result<(), Refusal> + Sync,
) -> Result<()> {
    let (places, held) = (Places::default(), AtomicUsize::new(0));
    let service = Service { bounds, gate, feed, stop, take, places, held };
    thread::scope(|scope| {
        while !stop.is_set() {
            let look = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&look));
            match listener.accept() {
                Ok((stream, sender)) => service.begin(scope, stream, sender.ip()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // No descriptors left, for example: some come back when requests end.
                Err(_) => drop(stop.wait(Duration::from_millis(100))),
            }
        }
    });
    Ok(())
}

impl<T: Fn(&str, &[u8]) -> Result<(), Refusal> + Sync> Service<'_, T> {
    /// Answers on a thread of its own; without a place or a thread the connection ends.
    fn begin<'s>(&'s self, scope: &'s Scope<'s, '_>, stream: TcpStream, sender: IpAddr) {
        if !self.places.take(sender) {
            return;
        }
        let work = move || {
            self.answer(&stream, sender);
            self.places.give_back(sender);
        };
        let thread = thread::Builder::new().name("post".into()).stack_size(STACK);
        if thread.spawn_scoped(scope, work).is_err() {
            self.places.give_back(sender);
        }
    }

    fn answer(&self, stream: &TcpStream, sender: IpAddr) {
        if stream.set_nonblocking(false).is_err() || stream.set_write_timeout(Some(ANSWER)).is_err() {
            return;
        }
        let refusal = self.request(stream, sender).err();
        if let Some(why) = refusal.as_ref().and_then(|refusal| refusal.dropped) {
            lock(self.feed).dropped(why);
        }
        // Whoever does not wait for the answer does not need it.
        let _ = respond(stream, refusal.as_ref());
    }

    fn request(&self, stream: &TcpStream, sender: IpAddr) -> Result<(), Refusal> {
        if !self.gate.admits(sender) {
            let text = format!("{sender} may not send values here");
            return Err(Refusal::new(403, text).counted(Dropped::NotAllowed));
        }
        let mut from = Sender::new(stream, self.bounds, self.stop, &self.held);
        let head = from.head()?;
        if !head.is_post {
            let is_ping = head.path.starts_with("/ping");
            return if is_ping { Ok(()) } else { Err(Refusal::new(405, "only posts are taken")) };
        }
        // Telegraf wants its database to be created first: there is none, and the request has no values.
        if head.path.starts_with("/query") {
            return Ok(());
        }
        if !self.gate.accepts(head.authorization.as_deref()) {
            let refusal = Refusal::new(401, "the token is missing or wrong");
            return Err(refusal.counted(Dropped::NotAllowed));
        }
        let body = from.body(&head)?;
        (self.take)(&head.path, &body.bytes)
    }
}

/// Who has how many connections.
#[derive(Default)]
struct Places(Mutex<HashMap<IpAddr, usize>>);

impl Places {
    fn take(&self, sender: IpAddr) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.entry(sender).or_default();
        let is_free = all < CONNECTIONS && *own < CONNECTIONS_OF_ONE;
        *own += usize::from(is_free);
        if *own == 0 {
            taken.remove(&sender);
        }
        is_free
    }

    fn give_back(&self, sender: IpAddr) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&sender) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&sender);
            }
        }
    }
}

fn respond(mut stream: &TcpStream, refusal: Option<&Refusal>) -> io::Result<()> {
    let Some(Refusal { status, text, is_json, .. }) = refusal else {
        return stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    };
    let reason = match status {
        401 => "Unauthorized\r\nWWW-Authenticate: Token",
        403 => "Forbidden",
        405 => "Method Not Allowed\r\nAllow: POST",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Bad Request",
    };
    let length = text.len() + 1;
    let form = if *is_json { "application/json" } else { "text/plain" };
    write!(
        stream,
        "HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: {form}\r\nContent-Length: {length}\r\n\r\n{text}\n"
    )?;
    // With bytes left unread, closing would take the answer back. Whoever goes on to send has only this time for all of them.
    stream.shutdown(std::net::Shutdown::Write)?;
    let (end, mut rest) = (Instant::now() + REST, vec![0; 16 << 10]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        if stream.read(&mut rest)? == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import_command::monitor::feed::Feed;
    use std::sync::Arc;

    /// Ends the service also where an assertion has failed: the scope waits for it.
    struct AtEnd<'a>(&'a Stop);

    impl Drop for AtEnd<'_> {
        fn drop(&mut self) {
            self.0.set();
        }
    }

    /// The answers to what `ask` does with a service of these bounds, and what it has taken.
    fn with_service(bounds: Bounds, ask: impl FnOnce(SocketAddr)) -> Vec<(String, Vec<u8>)> {
        with_service_and(&feed(), bounds, ask)
    }

    fn with_service_and(
        feed: &Shared,
        bounds: Bounds,
        ask: impl FnOnce(SocketAddr),
    ) -> Vec<(String, Vec<u8>)> {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let (address, taken) = (listener.local_addr().unwrap(), Mutex::new(Vec::new()));
        let stop = &Stop::default();
        thread::scope(|scope| {
            let take = |path: &str, body: &[u8]| {
                taken.lock().unwrap().push((path.to_owned(), body.to_vec()));
                Ok(())
            };
            let gate = Gate::default();
            let service = scope.spawn(move || serve_within(bounds, &listener, &gate, feed, stop, take));
            let end = AtEnd(stop);
            ask(address);
            drop(end);
            service.join().unwrap().unwrap();
        });
        taken.into_inner().unwrap()
    }

    fn feed() -> Shared {
        let table = import::mapping::Table::shipped().unwrap();
        Arc::new(Mutex::new(Feed::new(table, None, false, Duration::from_secs(10))))
    }

    fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// All until the end of the connection.
    fn answer(mut stream: TcpStream) -> String {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn status(stream: TcpStream) -> String {
        answer(stream).split(' ').nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn bodies_come_whole_however_they_are_sent() {
        let requests = [
            "POST /write?db=x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
            "POST /write?db=x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            "POST /write?db=x HTTP/1.0\r\ncontent-length: 5\r\nExpect: 100-continue\r\n\r\nhello",
        ];
        let taken = with_service(BOUNDS, |address| {
            for request in requests {
                let answer = answer(send(address, request.as_bytes()));
                assert!(answer.contains("HTTP/1.1 204 "), "{request}: {answer}");
            }
            assert_eq!(status(send(address, b"GET /ping HTTP/1.1\r\n\r\n")), "204");
            assert_eq!(status(send(address, b"POST /query?q=CREATE+DATABASE HTTP/1.1\r\n\r\n")), "204");
        });
        assert_eq!(taken, vec![("/write?db=x".to_owned(), b"hello".to_vec()); 3]);
    }

    fn packed(body: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(body).unwrap();
        packer.finish().unwrap()
    }

    fn post(coding: &str, body: &[u8]) -> Vec<u8> {
        let head = format!(
            "POST /write HTTP/1.1\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    }

    /// Telegraf sends so unless it was told otherwise.
    #[test]
    fn gzip_bodies_are_decoded() {
        let two_members = [packed(b"hel"), packed(b"lo")].concat();
        let taken = with_service(BOUNDS, |address| {
            for (coding, body) in
                [("gzip", &packed(b"hello")), ("X-GZIP", &two_members), ("identity", &b"hello".to_vec())]
            {
                assert_eq!(status(send(address, &post(coding, body))), "204", "{coding}");
            }
            assert_eq!(status(send(address, &post("zstd", b"hello"))), "415");
            assert_eq!(status(send(address, &post("gzip", b"hello"))), "400");
            let whole = packed(b"hello");
            assert_eq!(status(send(address, &post("gzip", &whole[..whole.len() - 4]))), "400");
        });
        assert_eq!(taken, vec![("/write".to_owned(), b"hello".to_vec()); 3]);
    }

    /// A few kilobytes of gzip may stand for gigabytes.
    #[test]
    fn a_decompression_bomb_is_refused_and_counted() {
        let bounds = Bounds { body_bytes: 100_000, ..BOUNDS };
        let feed = feed();
        let taken = with_service_and(&feed, bounds, |address| {
            let (fits, bomb) = (packed(&[b'x'; 100_000]), packed(&vec![b'x'; 50_000_000]));
            assert!(bomb.len() < bounds.body_bytes, "{}", bomb.len());
            assert_eq!(status(send(address, &post("gzip", &fits))), "204");
            let answer = answer(send(address, &post("gzip", &bomb)));
            assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("100000 bytes"), "{answer}");
        });
        assert_eq!(taken.len(), 1);
        assert!(
            lock(&feed).said().contains("1 without a value: longer than anybody means"),
            "{}",
            lock(&feed).said()
        );
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let bounds = Bounds { body_bytes: 10, ..BOUNDS };
        let taken = with_service(bounds, |address| {
            for (request, expected) in [
                ("GET /write HTTP/1.1\r\n\r\n", "405"),
                ("nonsense\r\n\r\n", "400"),
                ("POST / HTTP/1.1\r\n\r\n", "411"),
                ("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "400"),
                ("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", "413"),
                ("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "400"),
                ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "400"),
                ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n", "413"),
                ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "413"),
                (
                    "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n1\r\nx\r\n",
                    "400",
                ),
            ] {
                // Some are refused for what follows, some before all of it has come.
                let mut stream = send(address, request.as_bytes());
                let _ = stream.write_all(&[b'1'; 11]);
                assert_eq!(status(stream), expected, "{request}");
            }
            let long = format!("POST / HTTP/1.1\r\nX: {}\r\n", "x".repeat(20_000));
            assert_eq!(status(send(address, long.as_bytes())), "431");
        });
        assert_eq!(taken, []);
    }

    /// A byte now and then keeps a connection alive, and neither its place nor anybody else's request.
    #[test]
    fn slow_senders_are_cut_off_and_keep_nobody_waiting() {
        let short = Duration::from_millis(700);
        let bounds = Bounds { head_time: short, body_time: short, ..BOUNDS };
        let taken = with_service(bounds, |address| {
            let began = Instant::now();
            let slow: Vec<TcpStream> =
                ["POST / HTTP/1.1\r\nX: ", "POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n"]
                    .into_iter()
                    .cycle()
                    .take(40)
                    .map(|head| send(address, head.as_bytes()))
                    .collect();
            let quick = send(address, b"POST /quick HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
            assert_eq!(status(quick), "204");
            // Each byte would begin another timeout, if there were one for each read.
            let mut refused = 0;
            while refused < slow.len() {
                assert!(began.elapsed() < Duration::from_secs(60), "{refused} of {} are refused", slow.len());
                refused = slow.iter().filter(|stream| !stays_open(stream)).count();
            }
            assert!(began.elapsed() >= short);
        });
        assert_eq!(taken, [("/quick".to_owned(), b"x".to_vec())]);
    }

    /// Each byte would begin another timeout here as well.
    #[test]
    fn who_is_refused_does_not_stay_by_going_on_to_send() {
        with_service(BOUNDS, |address| {
            let mut stream = send(address, b"GET /write HTTP/1.1\r\n\r\n");
            testkit::wait_until("the connection to end", || stream.write_all(b"x").is_err());
        });
    }

    /// Sends a byte, and looks for an answer without taking it.
    fn stays_open(mut stream: &TcpStream) -> bool {
        let _ = stream.write_all(b"x");
        stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        stream.peek(&mut [0; 12]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    #[test]
    fn one_sender_has_not_all_places() {
        let (places, one, other) =
            (Places::default(), IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let taken = (0..CONNECTIONS).filter(|_| places.take(one)).count();
        assert_eq!(taken, CONNECTIONS_OF_ONE);
        assert!(places.take(other));
        places.give_back(one);
        assert!(places.take(one) && !places.take(one));
    }
}
