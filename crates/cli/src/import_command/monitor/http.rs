//! Posts, as they come.

use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tiny_http::{Method, Response, Server};

use crate::import_command::stop::Stop;

/// No body is longer.
const LONGEST: u64 = 32 << 20;
/// How often is looked whether it is to stop.
const LOOK: Duration = Duration::from_millis(200);

/// Listens.
pub fn bind(address: SocketAddr) -> Result<Server> {
    Server::http(address).map_err(|error| anyhow!("cannot listen at {address}: {error}"))
}

/// Gives the path and body of each post, until it is to stop; an error of theirs is answered with its text.
pub fn serve(server: &Server, stop: &Stop, mut take: impl FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
    while !stop.is_set() {
        let Some(mut request) = server.recv_timeout(LOOK)? else { continue };
        let (status, text) = if *request.method() != Method::Post {
            (if request.url().starts_with("/ping") { 204 } else { 405 }, String::new())
        } else {
            let mut body = Vec::new();
            let read = request.as_reader().take(LONGEST + 1).read_to_end(&mut body);
            match read {
                Err(error) => (400, format!("the request breaks off: {error}\n")),
                Ok(_) if body.len() as u64 > LONGEST => {
                    (413, format!("a request may have {LONGEST} bytes\n"))
                }
                Ok(_) => match take(request.url(), &body) {
                    Ok(()) => (204, String::new()),
                    Err(error) => (400, format!("{error:#}\n")),
                },
            }
        };
        // Whoever does not wait for the answer does not need it.
        let _ = request.respond(Response::from_string(text).with_status_code(status));
    }
    Ok(())
}
