//! All agents at once, each with a connection of its own, each sending its next batch when the last is durable.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use record::batch::MEDIA_TYPE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How it went.
pub struct Played {
    pub took: Duration,
    times: Vec<Duration>,
}

impl Played {
    pub fn percentile(&self, share: f64) -> Duration {
        let at = ((self.times.len() as f64 - 1.0) * share) as usize;
        self.times.get(at).copied().unwrap_or_default()
    }
}

/// Sends all batches.
pub fn play(batches: &[Vec<Vec<u8>>], port: u16, token: &str) -> Result<Played> {
    // As agents do, each on its own node: not part of what is measured.
    let requests: Vec<Arc<Vec<Vec<u8>>>> = batches
        .iter()
        .map(|batches| batches.iter().map(|batch| request(batch, token)).collect::<Result<_>>().map(Arc::new))
        .collect::<Result<_>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let began = Instant::now();
        let agents: Vec<_> =
            requests.into_iter().map(|requests| tokio::spawn(agent(requests, port))).collect();
        let mut times = Vec::new();
        for agent in agents {
            times.extend(agent.await??);
        }
        times.sort();
        Ok(Played { took: began.elapsed(), times })
    })
}

fn request(batch: &[u8], token: &str) -> Result<Vec<u8>> {
    let body = zstd::bulk::compress(batch, 3)?;
    let head = format!(
        "POST /api/v1/ingest HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: {MEDIA_TYPE}\r\n\
         content-encoding: zstd\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Ok([head.into_bytes(), body].concat())
}

async fn agent(requests: Arc<Vec<Vec<u8>>>, port: u16) -> Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let mut times = Vec::new();
    for request in requests.iter() {
        let began = Instant::now();
        stream.write_all(request).await?;
        let answer = answer(&mut stream).await?;
        if !answer.starts_with("HTTP/1.1 200") {
            bail!("the server answers {answer}");
        }
        times.push(began.elapsed());
    }
    Ok(times)
}

async fn answer(stream: &mut TcpStream) -> Result<String> {
    let mut bytes = Vec::new();
    let mut buf = [0; 4096];
    loop {
        let n = stream.read(&mut buf).await?;
        if n == 0 {
            bail!("the server closes the connection");
        }
        bytes.extend_from_slice(&buf[..n]);
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.and_then(|text| text.parse().ok()).unwrap_or(0) {
                return Ok(text.into_owned());
            }
        }
    }
}

/// What the server says of its transactions.
pub fn commits(port: u16) -> Result<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let find = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or(" ?").to_owned();
    let (sum, count) = (find("jobglass_commit_seconds_sum"), find("jobglass_commit_seconds_count"));
    Ok(format!("{count} transactions took{sum} s"))
}
