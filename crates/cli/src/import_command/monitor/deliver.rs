//! Series on their way to the server: kept while it is away, up to a bound, and what does not fit is counted.

use std::collections::VecDeque;

use record::measure::{Measures, Series, VALUES_MAX};

use crate::ask::Server;

/// What waits for a server that is away, in bytes: an hour of 3,000 nodes with fifty values a minute.
const WAITING_MAX: usize = 256 << 20;

/// A request, and how many values are in it.
struct Request {
    body: Vec<u8>,
    values: u64,
}

/// Sends series in the order in which they came.
pub struct Deliver {
    server: Server,
    waiting: VecDeque<Request>,
    bytes: usize,
    stored: u64,
    lost: u64,
    /// That it is away is said once.
    is_away: bool,
}

impl Deliver {
    pub fn new(server: Server) -> Deliver {
        Deliver { server, waiting: VecDeque::new(), bytes: 0, stored: 0, lost: 0, is_away: false }
    }

    /// Takes series, and sends what the server takes.
    pub fn take(&mut self, measures: Measures) {
        let mut part = Vec::new();
        let mut values = 0;
        for series in measures.series {
            let more = series.points.len() as u64;
            if values + more > VALUES_MAX {
                self.queue(std::mem::take(&mut part), std::mem::take(&mut values));
            }
            values += more;
            part.push(series);
        }
        self.queue(part, values);
        self.send();
    }

    fn queue(&mut self, series: Vec<Series>, values: u64) {
        if series.is_empty() {
            return;
        }
        let Ok(body) = minicbor::to_vec(Measures { series, told: Vec::new() }) else {
            self.lost += values;
            return;
        };
        self.bytes += body.len();
        self.waiting.push_back(Request { body, values });
        while self.bytes > WAITING_MAX {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.bytes -= oldest.body.len();
            self.lost += oldest.values;
        }
    }

    fn send(&mut self) {
        while let Some(next) = self.waiting.front() {
            match self.server.post("/api/v1/measures", &next.body) {
                Ok(_) => self.stored += next.values,
                Err(error) if error.is_passing => {
                    if !std::mem::replace(&mut self.is_away, true) {
                        say!("jobglass: {:#}; values are kept until it takes them", error.why);
                    }
                    return;
                }
                Err(error) => {
                    say!("jobglass: {:#}: {} values are lost", error.why, next.values);
                    self.lost += next.values;
                }
            }
            if std::mem::replace(&mut self.is_away, false) {
                say!("jobglass: the server takes values again");
            }
            self.bytes -= self.waiting.pop_front().map_or(0, |sent| sent.body.len());
        }
    }

    /// What waits now is lost.
    pub fn finish(&mut self) {
        self.lost += self.waiting.drain(..).map(|request| request.values).sum::<u64>();
    }

    pub fn is_whole(&self) -> bool {
        self.lost == 0
    }

    /// For people.
    pub fn said(&self) -> String {
        let waiting: u64 = self.waiting.iter().map(|request| request.values).sum();
        format!("{} values stored, {waiting} waiting, {} lost", self.stored, self.lost)
    }
}
