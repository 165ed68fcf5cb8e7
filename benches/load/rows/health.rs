//! Round trips of requests.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::super::client::{ANSWER, Link, crowd, is_ok, request};
use super::super::server::Server;
use super::super::stats::{Samples, Side, float, micros, percentile};
use super::{Lab, SETTLE, fresh};

/// What is asked: of the whole state, and the least that can be asked.
struct Case {
    method: &'static str,
    one: &'static str,
    many: &'static str,
    cpu: Option<&'static str>,
    bytes: Option<&'static str>,
}

const CASES: [Case; 2] = [
    Case { method: "last-heartbeat", one: "light-1", many: "light-50", cpu: None, bytes: None },
    Case {
        method: "health",
        one: "health-1",
        many: "health-50",
        cpu: Some("health-50-cpu"),
        bytes: Some("health-bytes"),
    },
];
const CONNECTIONS: usize = 50;
const DEPTH: usize = 8;
/// How often each server has its turn: what else the machine does changes from second to
/// second, and then meets all of them.
const TURNS: usize = 20;
/// How long answers are waited for that come too late to count.
const PATIENCE: Duration = Duration::from_secs(2);

/// One after the other on one connection, then several at once on many. The bare server
/// takes turns with the gateway.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let (sides, turns, time): (&[Side], _, _) = match side {
        // It answers some of these in seconds.
        Side::Original => (&[side], 1, Duration::from_secs(lab.options.size(10, 5))),
        _ => {
            (&[Side::Gateway, Side::Bare], TURNS, Duration::from_millis(lab.options.size(150, 30)))
        }
    };
    for case in CASES {
        let mut servers = Vec::new();
        for side in sides {
            servers.push((*side, fresh(lab, *side).await?));
        }
        for (metric, connections, depth) in [(case.one, 1, 1), (case.many, CONNECTIONS, DEPTH)] {
            let mut loads = Vec::new();
            for (side, (server, _home)) in &servers {
                loads.push((*side, Load::new(server, case.method, connections, depth).await?));
            }
            tokio::time::sleep(SETTLE).await;
            for _ in 0..turns {
                for (_, load) in &mut loads {
                    load.turn(time).await?;
                }
            }
            for (side, load) in loads {
                samples.add(metric, side, load.rate()?);
                if connections > 1 {
                    for (metric, value) in [(case.cpu, load.cpu()), (case.bytes, load.bytes)] {
                        if let Some(metric) = metric {
                            samples.add(metric, side, value);
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// What asks a server, and what came of it.
struct Load<'a> {
    server: &'a Server,
    method: &'static str,
    links: Vec<Link>,
    /// Requests of each connection that are under way.
    depth: usize,
    /// Answers in a second, in each turn.
    rates: Vec<f64>,
    answers: usize,
    cpu: Duration,
    /// Size of an answer.
    bytes: f64,
}

impl<'a> Load<'a> {
    async fn new(
        server: &'a Server,
        method: &'static str,
        connections: usize,
        depth: usize,
    ) -> anyhow::Result<Self> {
        let mut links = crowd(server.address(), connections).await?;
        let first = links.first_mut().context("nobody is there")?;
        let bytes = float(first.ask(&request("1", method, &json!({}))).await?.len());
        let (rates, answers, cpu) = (Vec::new(), 0, Duration::ZERO);
        Ok(Self { server, method, links, depth, rates, answers, cpu, bytes })
    }

    /// Asks for so long.
    async fn turn(&mut self, time: Duration) -> anyhow::Result<()> {
        let question = request("1", self.method, &json!({}));
        let cpu = self.server.cpu()?;
        let until = Instant::now() + time;
        let mut pumps = JoinSet::new();
        for link in self.links.drain(..) {
            pumps.spawn(pump(link, question.clone(), self.depth, until));
        }
        let mut answers = 0;
        while let Some(pumped) = pumps.join_next().await {
            let (link, answered) = pumped??;
            self.links.push(link);
            answers += answered;
        }
        self.rates.push(float(answers) / time.as_secs_f64());
        self.cpu += self.server.cpu_since(cpu)?;
        self.answers += answers;
        Ok(())
    }

    /// Answers in a second.
    fn rate(&self) -> anyhow::Result<f64> {
        ensure!(self.answers > 0, "no answer to {} in time", self.method);
        percentile(&self.rates, 50).context("it had no turn")
    }

    /// The server's CPU for each answer, in microseconds.
    fn cpu(&self) -> f64 {
        micros(self.cpu) / float(self.answers)
    }
}

/// Keeps `depth` requests under way until then, and waits for the last answers; how many
/// came in time.
async fn pump(
    mut link: Link,
    one: Vec<u8>,
    depth: usize,
    until: Instant,
) -> anyhow::Result<(Link, usize)> {
    let burst = one.repeat(depth);
    let (mut again, mut open, mut answers) = (depth, 0, 0);
    loop {
        if Instant::now() < until {
            link.send(&burst[..again * one.len()]).await?;
            open += again;
        }
        if open == 0 {
            return Ok((link, answers));
        }
        // Some answers of the original take minutes.
        let Ok(frame) = timeout_at(until + PATIENCE, link.next()).await else {
            return Ok((link, answers));
        };
        again = answered(frame?)?;
        while let Some(frame) = link.ready()? {
            again += answered(frame)?;
        }
        open -= again;
        if Instant::now() < until {
            answers += again;
        }
    }
}

/// One for an answer, none for an event.
fn answered(frame: &[u8]) -> anyhow::Result<usize> {
    let is_answer = frame.starts_with(ANSWER);
    ensure!(!is_answer || is_ok(frame), "refused: {}", String::from_utf8_lossy(frame));
    Ok(usize::from(is_answer))
}
