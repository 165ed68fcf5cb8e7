//! The recordings, line by line.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::call::Call;

/// One recorded file.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Folder and file name without extension, e.g. `chat/stream-text`.
    pub name: String,
    pub about: String,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone)]
pub struct Line {
    /// Line number in the file, from 1.
    pub number: usize,
    /// Milliseconds since the start of the recording.
    pub at: u64,
    /// Name of the connection; empty for notes and HTTP calls.
    pub conn: String,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    Open { headers: Vec<(String, String)> },
    Sent(Value),
    SentRaw(Raw),
    Received(Value),
    ClosedByServer { code: u16, reason: String },
    ClosedByClient,
    Refused { status: u16, body: String },
    Ping,
    Note(String),
    Http(Box<Call>),
}

impl Line {
    /// Whether a socket was open for this line.
    pub fn is_socket(&self) -> bool {
        !matches!(self.what, What::Refused { .. } | What::Note(_) | What::Http(_))
    }
}

/// Bytes that are no frame; `text` can be clipped, `bytes` is the true size.
#[derive(Debug, Clone, PartialEq)]
pub struct Raw {
    pub bytes: usize,
    pub text: Option<String>,
    pub note: Option<String>,
}

impl Trace {
    pub fn load(name: &str, path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(name, &text)
    }

    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut about = String::new();
        let mut lines = Vec::new();
        for (index, raw) in text.lines().enumerate().filter(|(_, raw)| !raw.trim().is_empty()) {
            let at = |error: String| format!("{name}:{}: {error}", index + 1);
            let value: Value = serde_json::from_str(raw).map_err(|error| at(error.to_string()))?;
            if value["d"] == "about" {
                about = text_of(&value["text"]);
            } else {
                lines.push(line(index + 1, &value).map_err(at)?);
            }
        }
        let mut trace = Self { name: name.to_owned(), about, lines };
        trace.tell_reopened_apart();
        trace.order_calls();
        Ok(trace)
    }

    /// Requests are written down when they have been answered; they go in the order
    /// in which they were sent.
    fn order_calls(&mut self) {
        if self.lines.iter().all(|line| matches!(line.what, What::Http(_))) {
            self.lines.sort_by_key(|line| line.at);
        }
        let mut before: Option<Call> = None;
        for line in &mut self.lines {
            if let What::Http(call) = &mut line.what {
                if let Some(before) = &before {
                    call.count_from(before);
                }
                before = Some((**call).clone());
            }
        }
    }

    /// A name that is opened again is another connection: `n`, `n#2`, …
    fn tell_reopened_apart(&mut self) {
        let mut uses: HashMap<String, usize> = HashMap::new();
        for line in self.lines.iter_mut().filter(|line| !line.conn.is_empty()) {
            let opens = matches!(line.what, What::Open { .. });
            let count = uses.entry(line.conn.clone()).or_insert(usize::from(!opens));
            *count += usize::from(opens);
            if *count > 1 {
                line.conn = format!("{}#{count}", line.conn);
            }
        }
    }

    /// The connections that were opened before the recording began.
    pub fn implicit(&self) -> Vec<String> {
        let mut known: Vec<&str> = Vec::new();
        let mut implicit = Vec::new();
        for line in self.lines.iter().filter(|line| !line.conn.is_empty()) {
            if known.contains(&line.conn.as_str()) {
                continue;
            }
            known.push(&line.conn);
            let opens =
                matches!(line.what, What::Open { .. } | What::Refused { .. } | What::Note(_));
            if !opens {
                implicit.push(line.conn.clone());
            }
        }
        implicit
    }

    /// Length of the recording in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        self.lines.last().map_or(0, |line| line.at)
    }

    /// How many frames the recording holds for this connection.
    pub fn received_on<'a>(&'a self, conn: &'a str) -> impl Iterator<Item = (&'a Line, &'a Value)> {
        self.lines.iter().filter(move |line| line.conn == conn).filter_map(|line| {
            if let What::Received(frame) = &line.what { Some((line, frame)) } else { None }
        })
    }

    /// The names of all connections, in the order of their first line.
    pub fn connections(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for line in self.lines.iter().filter(|line| !line.conn.is_empty()) {
            if !names.contains(&line.conn) {
                names.push(line.conn.clone());
            }
        }
        names
    }

    /// Whether each agent event of a run was recorded.
    pub fn has_all_agent_events(&self) -> bool {
        !self.about.contains("agent/assistant")
    }

    /// Whether the recording leaves this event out, as its first line says.
    pub fn leaves_out(&self, frame: &Value) -> bool {
        let says = |words: &str| self.about.contains(words);
        let payload = &frame["payload"];
        match frame["event"].as_str().unwrap_or_default() {
            "" => false,
            "chat" => payload["state"] == "delta" && says("chat deltas"),
            "agent" => payload["stream"] == "assistant" && says("agent/assistant chunks"),
            _ if says("Only chat and agent/assistant events") => true,
            "sessions.changed" => {
                payload["phase"] == "message" && says("sessions.changed phase message")
            }
            "session.message" => says("session.message only for the first few"),
            _ => false,
        }
    }
}

fn line(number: usize, value: &Value) -> Result<Line, String> {
    let at = value["t"].as_f64().ok_or("no time")?;
    let conn = text_of(&value["c"]);
    let what = what(value)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(Line { number, at: at as u64, conn, what })
}

fn what(value: &Value) -> Result<What, String> {
    if !value["req"].is_null() {
        return Ok(What::Http(Box::new(Call::parse(value)?)));
    }
    let kind = value["d"].as_str().ok_or("neither a direction nor a request")?;
    Ok(match kind {
        "open" => What::Open { headers: headers(&value["headers"]) },
        ">" => What::Sent(value["f"].clone()),
        "<" => What::Received(value["f"].clone()),
        "raw>" => What::SentRaw(Raw {
            bytes: number(&value["bytes"])?,
            text: value["text"].as_str().map(str::to_owned),
            note: value["note"].as_str().map(str::to_owned),
        }),
        "close" if value["by"] == "client" => What::ClosedByClient,
        "close" => What::ClosedByServer {
            code: number(&value["code"])?,
            reason: text_of(&value["reason"]),
        },
        "upgrade-refused" => {
            What::Refused { status: number(&value["status"])?, body: text_of(&value["body"]) }
        }
        "ping" => What::Ping,
        "note" => What::Note(text_of(&value["text"])),
        other => return Err(format!("unknown direction {other}")),
    })
}

fn number<T: TryFrom<u64>>(value: &Value) -> Result<T, String> {
    value
        .as_u64()
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("not a number: {value}"))
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn headers(value: &Value) -> Vec<(String, String)> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| (name.clone(), text_of(value))).collect()
}
