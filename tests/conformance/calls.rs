//! Requests of HTTP that are under way.
//!
//! Not paced by the recorded time: a request is sent when everything has been
//! answered that was answered before it, and no sooner than the streams that
//! were open had told as much.

use std::collections::HashMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::call::{Answer, Call, events, stream, whole};
use super::ids::Learned;
use super::trace::Line;

/// Added to the time that the recorded answer took; a machine that does other things as well
/// needs more of it.
const PATIENCE: Duration = Duration::from_secs(30);
/// What the recording does not have may come this late.
const SETTLE: Duration = Duration::from_millis(500);
/// Recorded times are rounded: two requests overlap by more than this.
const ROUNDING_MS: u64 = 5;

/// Those that have been sent.
#[derive(Default)]
pub struct Calls {
    running: Vec<Running>,
    /// By the number of their line.
    answers: HashMap<usize, Answer>,
}

struct Running {
    line: usize,
    began: u64,
    call: Call,
    /// How many events have come.
    told: watch::Receiver<usize>,
    /// The one task that asks.
    asking: JoinSet<Answer>,
}

impl Running {
    fn ended(&self) -> u64 {
        self.began + self.call.took
    }
}

impl Calls {
    /// Waits for everything that had come before this moment of the recording.
    pub async fn catch_up(&mut self, at: u64, learned: &mut Learned) {
        let is_over = |call: &Running| call.ended() <= at.saturating_add(ROUNDING_MS);
        let (mut over, mut going_on): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.running).into_iter().partition(is_over);
        over.sort_by_key(Running::ended);
        for call in over {
            let answer = call.asking.join_all().await.remove(0);
            if let (Answer::Given(recorded), Answer::Given(actual)) = (&call.call.answer, &answer) {
                learned.learn(recorded, actual);
            }
            self.answers.insert(call.line, answer);
        }
        for call in &mut going_on {
            let before = call.call.told.iter().filter(|told| call.began + **told <= at).count();
            let until = Instant::now() + PATIENCE;
            // A stream that ends or falls silent is reported with its answer.
            let _ = timeout_at(until, call.told.wait_for(|told| *told >= before)).await;
        }
        self.running = going_on;
    }

    /// Sends one.
    pub fn begin(&mut self, address: &str, line: &Line, call: Call, deadline: Instant) {
        let (sender, told) = watch::channel(0);
        let (address, asked) = (address.to_owned(), call.clone());
        let patience = Duration::from_millis(call.took) + PATIENCE;
        let until = move || deadline.min(Instant::now() + patience);
        let mut asking = JoinSet::new();
        asking.spawn(async move {
            for _ in 1..asked.times {
                ask(&address, &asked, &watch::channel(0).0, until()).await;
            }
            ask(&address, &asked, &sender, until()).await
        });
        self.running.push(Running { line: line.number, began: line.at, call, told, asking });
    }

    /// All answers, when everything has been answered.
    pub async fn finish(mut self, learned: &mut Learned) -> HashMap<usize, Answer> {
        self.catch_up(u64::MAX, learned).await;
        self.answers
    }
}

/// Sends a request as it was recorded, on a socket of its own: no client would
/// send some of them.
async fn ask(address: &str, call: &Call, told: &watch::Sender<usize>, until: Instant) -> Answer {
    let socket = match TcpStream::connect(address).await {
        Ok(socket) => socket,
        Err(error) => return Answer::Withheld(error.to_string()),
    };
    let (mut reader, mut writer) = socket.into_split();
    let bytes = call.bytes(address);
    // An answer can come before the body is there, and the socket stays open after it.
    let writing = async {
        let _ = writer.write_all(&bytes).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        received = receive(&mut reader, call, told, until) => received.answer(call),
        () = writing => Answer::Withheld("nothing was read".to_owned()),
    }
}

/// What comes until the server ends it, it is late, or more is not recorded.
async fn receive(
    reader: &mut OwnedReadHalf,
    call: &Call,
    told: &watch::Sender<usize>,
    mut until: Instant,
) -> Received {
    let (mut received, mut part) = (Received::default(), vec![0; 65_536]);
    while received.ended.is_none() {
        match timeout_at(until, reader.read(&mut part)).await {
            Ok(Ok(0)) => received.ended = Some("closed".to_owned()),
            Ok(Ok(count)) => received.bytes.extend_from_slice(&part[..count]),
            Ok(Err(error)) => received.ended = Some(format!("{:?}", error.kind())),
            Err(_) => break,
        }
        let now = received.events();
        told.send_replace(now);
        if !call.ends() && now >= call.told.len() {
            until = until.min(Instant::now() + SETTLE);
        }
    }
    received
}

#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    /// How the server ended it; nothing when it did not.
    ended: Option<String>,
}

impl Received {
    fn parts(&self) -> Option<(String, Vec<u8>)> {
        let at = self.bytes.windows(4).position(|part| part == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&self.bytes[..at]).into_owned();
        let body = self.bytes[at + 4..].to_vec();
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        Some((head, if is_chunked { unchunked(&body) } else { body }))
    }

    fn events(&self) -> usize {
        self.parts().map_or(0, |(_, body)| {
            let text = String::from_utf8_lossy(&body).into_owned();
            let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
            events(whole).len()
        })
    }

    fn answer(self, call: &Call) -> Answer {
        let ended = self.ended.is_some();
        let Some((head, body)) = self.parts() else {
            return Answer::Withheld(self.ended.unwrap_or_else(|| "nothing in time".to_owned()));
        };
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let text = String::from_utf8_lossy(&body);
        let is_stream = headers.iter().any(|(_, value)| value.starts_with("text/event-stream"));
        let status = status.unwrap_or_default();
        Answer::Given(match is_stream && call.method != "HEAD" {
            true => stream(status, &headers, &text, ended),
            false => whole(status, &headers, &text),
        })
    }
}

/// The bytes of an answer that comes in chunks, as far as they are there.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(at) = rest.windows(2).position(|part| part == b"\r\n") {
        let size = String::from_utf8_lossy(&rest[..at]).into_owned();
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        let Some(chunk) = rest.get(at + 2..at + 2 + size).filter(|_| size > 0) else { break };
        whole.extend_from_slice(chunk);
        rest = rest.get(at + 4 + size..).unwrap_or_default();
    }
    whole
}
