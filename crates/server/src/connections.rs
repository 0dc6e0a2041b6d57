//! Accepts connections, as many as the server can hold; when it is full, the one that has been idle longest goes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::body::{BODY_SECONDS, Timely};
use crate::metrics::Metrics;
use crate::tls::Tls;

/// A request's head must have come within this time, and so must a handshake.
const HEAD: Duration = Duration::from_secs(10);
/// Bytes of a request's head, and of what is buffered of an answer.
const HEAD_MAX: usize = 64 * 1024;
/// A connection that is sent away leaves its place within this time.
const ROOM: Duration = Duration::from_secs(1);
/// Requests in progress have this long to end when the server stops.
const FAREWELL: Duration = Duration::from_secs(10);

/// What listens, and for whom.
pub struct Front {
    pub listener: TcpListener,
    pub tls: Option<Arc<Tls>>,
    pub router: Router,
    pub metrics: Arc<Metrics>,
    /// Connections at the same time.
    pub most: usize,
}

/// The connections there are.
#[derive(Default)]
struct Open(Mutex<Table>);

#[derive(Default)]
struct Table {
    next: u64,
    /// Those without a request in progress, in the order in which they became idle.
    by_age: BTreeMap<u64, Arc<Connection>>,
}

pub struct Connection {
    leave: Notify,
    /// Changed under the table's lock.
    state: Mutex<State>,
}

/// A connection has several requests at a time with HTTP/2.
#[derive(Default)]
struct State {
    /// Its place in the table, if it is there.
    age: Option<u64>,
    requests: usize,
    is_gone: bool,
}

/// A request that has come as a whole, until it is answered or given up: its connection is not sent away.
pub struct InProgress {
    open: Arc<Open>,
    connection: Arc<Connection>,
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.open.change(&self.connection, |state| state.requests -= 1);
    }
}

/// A request whose body may still be on its way. Whoever sends it slowly keeps no place: the connection counts as idle until
/// all of it is there.
#[derive(Clone)]
pub struct Coming(Arc<Mutex<Option<InProgress>>>, Arc<Open>, Arc<Connection>);

impl Coming {
    fn of(open: &Arc<Open>, connection: &Arc<Connection>) -> Coming {
        // Others have been idle for longer than this one, which has just said something.
        open.change(connection, |state| state.requests += 1);
        open.change(connection, |state| state.requests -= 1);
        Coming(Arc::default(), open.clone(), connection.clone())
    }

    /// All of it is there.
    pub fn is_there(&self) {
        let Coming(request, open, connection) = self;
        let mut request = request.lock().unwrap_or_else(PoisonError::into_inner);
        request.get_or_insert_with(|| open.begin(connection));
    }
}

impl Connection {
    /// Whatever is still to be sent is dropped.
    pub fn close(&self) {
        self.leave.notify_one();
    }
}

impl Open {
    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> Arc<Connection> {
        let connection = Arc::new(Connection { leave: Notify::new(), state: Mutex::default() });
        self.change(&connection, |_| {});
        connection
    }

    fn leave(&self, connection: &Arc<Connection>) {
        self.change(connection, |state| state.is_gone = true);
    }

    /// A connection with a request in progress is not in the table: it cannot be sent away.
    fn begin(self: &Arc<Self>, connection: &Arc<Connection>) -> InProgress {
        self.change(connection, |state| state.requests += 1);
        InProgress { open: self.clone(), connection: connection.clone() }
    }

    /// Changes what a connection does, and puts it where it belongs then.
    fn change(&self, connection: &Arc<Connection>, change: impl FnOnce(&mut State)) {
        let mut table = self.lock();
        let mut state = connection.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let is_idle = state.requests == 0 && !state.is_gone;
        match (is_idle, state.age) {
            (true, None) => {
                table.next += 1;
                let age = table.next;
                table.by_age.insert(age, connection.clone());
                state.age = Some(age);
            }
            (false, Some(age)) => {
                table.by_age.remove(&age);
                state.age = None;
            }
            _ => {}
        }
    }

    /// Sends the connection away that has been idle longest; says whether there was one.
    fn evict(&self) -> bool {
        let oldest = self.lock().by_age.pop_first();
        oldest.inspect(|(_, connection)| connection.close()).is_some()
    }
}

impl Front {
    /// Serves until `stop` becomes true, then lets requests in progress end.
    pub async fn serve(self, mut stop: watch::Receiver<bool>) {
        let (open, alive) = (Arc::new(Open::default()), Arc::new(Semaphore::new(self.most)));
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors: someone has to leave before the next can come.
                    tracing::warn!(%error, "cannot accept a connection");
                    open.evict();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            self.metrics.connections.inc();
            let Some(place) = self.place(&alive, &open).await else { continue };
            let connection = open.enter();
            let (open, stop) = (open.clone(), stop.clone());
            let (tls, router) = (self.tls.clone(), self.router.clone());
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                serve_one(stream, peer, tls, router, &open, &connection, stop).await;
                open.leave(&connection);
                drop(place);
            });
        }
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(FAREWELL, alive.acquire_many(all)).await;
    }

    /// A place for a new connection, if need be that of the one that has been idle longest; `None` if all are busy.
    async fn place(&self, alive: &Arc<Semaphore>, open: &Open) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = alive.clone().try_acquire_owned() {
            return Some(place);
        }
        if open.evict() {
            self.metrics.connections_evicted.inc();
        }
        tokio::time::timeout(ROOM, alive.clone().acquire_owned()).await.ok()?.ok()
    }
}

async fn serve_one(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<Tls>>,
    router: Router,
    open: &Arc<Open>,
    connection: &Arc<Connection>,
    stop: watch::Receiver<bool>,
) {
    match tls {
        None => converse(stream, peer, router, open, connection, stop).await,
        Some(tls) => {
            let handshake = TlsAcceptor::from(tls.config()).accept(stream);
            let handshake = tokio::select! {
                handshake = tokio::time::timeout(HEAD, handshake) => handshake,
                () = connection.leave.notified() => return,
            };
            if let Ok(Ok(stream)) = handshake {
                converse(stream, peer, router, open, connection, stop).await;
            }
        }
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: SocketAddr,
    router: Router,
    open: &Arc<Open>,
    connection: &Arc<Connection>,
    mut stop: watch::Receiver<bool>,
) {
    let service = hyper::service::service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(connection.clone());
        let coming = Coming::of(open, connection);
        let request = request.map(|body| Timely::new(body, BODY_SECONDS, coming.clone()));
        let router = router.clone();
        async move {
            let response = router.oneshot(request).await;
            drop(coming);
            response
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(true)
        .max_buf_size(HEAD_MAX);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(HEAD).max_concurrent_streams(8);
    let talk = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(talk);
    tokio::select! {
        _ = talk.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => {}
        () = connection.leave.notified() => return,
    }
    talk.as_mut().graceful_shutdown();
    let _ = talk.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_with_a_request_in_progress_stays_and_without_one_it_goes_once() {
        let open = Arc::new(Open::default());
        let (first, second) = (open.enter(), open.enter());
        let (one, two) = (open.begin(&first), open.begin(&first));
        drop(one);
        assert!(open.evict(), "the second has none");
        assert!(!open.evict(), "the first has another");
        drop(two);
        let again = open.begin(&first);
        assert!(!open.evict());
        drop(again);
        assert!(open.evict() && !open.evict());
        // A request may end after its connection.
        let third = open.enter();
        let late = open.begin(&third);
        open.leave(&third);
        drop(late);
        open.leave(&second);
        assert!(!open.evict());
    }
}
