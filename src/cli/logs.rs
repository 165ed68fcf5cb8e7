//! `clawgate logs`: the log of the gateway.
//!
//! Owns: how lines are shown. Promises: each line once while it follows, over a
//! restart of the gateway as well; a line is one, whatever it quotes; a gateway of
//! this machine that does not run has its file read instead.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::config::{self, LogLevel, Overrides};
use crate::support::{Clock, SystemClock, json};
use crate::telemetry::{LogPlace, tail};

use super::client::{Client, ClientError};
use super::screen::in_line;
use super::surroundings::settings;
use super::{CliError, ConnectArgs, Screen, Surroundings, format};

/// How often the gateway is asked for more: a person does not read faster.
const EVERY_MS: u64 = 1000;
/// Lines when nobody says how many.
const LIMIT: u64 = 200;
/// Most lines, and most bytes, of one answer.
const LIMIT_MAX: u64 = 5000;
const BYTES_MAX: u64 = 1_000_000;
/// How far back lines of a level are looked for, in bytes: some ten thousand lines. Where
/// files are gone, half of it and a quarter.
const BACK: [u64; 3] = [8 * BYTES_MAX, 4 * BYTES_MAX, 2 * BYTES_MAX];
/// What is said when fewer are found than are wanted.
const NOT_ALL: &str = "older lines were not looked at";

/// Arguments of `clawgate logs`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // each is a flag
pub struct LogsArgs {
    /// Go on with what is logged from now on
    #[arg(long)]
    follow: bool,
    /// How many lines to begin with
    #[arg(long, value_name = "LINES", default_value_t = LIMIT,
        value_parser = clap::value_parser!(u64).range(1..=LIMIT_MAX))]
    limit: u64,
    /// How many bytes to look at for them
    #[arg(long, value_name = "BYTES", default_value_t = BYTES_MAX,
        value_parser = clap::value_parser!(u64).range(1..=BYTES_MAX))]
    max_bytes: u64,
    /// How often to look with --follow, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = EVERY_MS,
        value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
    /// Here no line has colours.
    #[arg(long, hide = true)]
    plain: bool,
    /// The same.
    #[arg(long, hide = true)]
    no_color: bool,
    /// Here times are local ones in any case.
    #[arg(long, hide = true)]
    local_time: bool,
    /// Only lines of this level and above: trace, debug, info, warn, error or fatal
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    level: Option<LogLevel>,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

impl LogsArgs {
    /// How many lines may have to be looked at to begin with: few may be of the level.
    fn to_look_at(&self) -> u64 {
        if self.level.is_some() { LIMIT_MAX } else { self.limit }
    }

    /// The last of the lines, as many as are wanted to begin with.
    fn last<'a>(&self, lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let mut wanted: Vec<_> = lines.filter(|line| self.wants(line)).collect();
        wanted.split_off(wanted.len().saturating_sub(self.most()))
    }

    fn most(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    /// Whether lines of the level may be further back than those that were looked at.
    fn misses(&self, found: usize, is_truncated: bool) -> bool {
        self.level.is_some() && is_truncated && found < self.most()
    }

    /// The lines of an answer that are wanted.
    fn of(&self, answer: &Value) -> Vec<String> {
        let lines = answer["lines"].as_array().map_or(&[][..], Vec::as_slice);
        let lines = lines.iter().filter_map(Value::as_str);
        lines.filter(|line| self.wants(line)).map(str::to_owned).collect()
    }

    /// Whether a line is of the level; one that does not say so is.
    fn wants(&self, line: &str) -> bool {
        let Some(wanted) = self.level else { return true };
        let parsed: Value = serde_json::from_str(line).unwrap_or_default();
        level_of(&parsed).and_then(LogLevel::parse).is_none_or(|level| level >= wanted)
    }
}

fn level_of(line: &Value) -> Option<&str> {
    line.pointer("/_meta/logLevelName").and_then(Value::as_str)
}

fn level(text: &str) -> Result<LogLevel, String> {
    let known = LogLevel::parse(text).filter(|level| *level != LogLevel::Silent);
    known.ok_or_else(|| "give trace, debug, info, warn, error or fatal".to_owned())
}

/// Shows the log.
pub async fn run(
    args: LogsArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    match all(args, around, screen).await {
        // Whoever takes the first lines of it only has what he wants.
        Err(error) if error.is_broken_pipe() => Ok(0),
        shown => shown,
    }
}

async fn all(args: LogsArgs, around: &Surroundings, screen: &mut Screen) -> Result<u8, CliError> {
    let (target, limit) = (args.connect.target(around)?, args.connect.limit());
    let mut client = match Client::connect(&target, limit).await {
        Ok(client) => client,
        Err(error) => return without_gateway(&args, around, screen, error.into()),
    };
    let mut asked = json!({"limit": args.to_look_at(), "maxBytes": args.max_bytes});
    loop {
        match page(&mut client, &mut asked, &args, screen).await {
            Ok(()) if args.follow => {}
            Ok(()) => break,
            // The cursor outlasts the gateway.
            Err(CliError::Client(error)) if args.follow && error.is_lost() => {
                screen.note(&format!("{error}; reconnecting …"))?;
                client = Client::renew(&target, limit).await?;
            }
            Err(error) => return Err(error),
        }
    }
    client.close().await;
    Ok(0)
}

/// Shows what is asked for. When more is to follow, `asked` is what comes next, and the
/// time for it has come.
async fn page(
    client: &mut Client,
    asked: &mut Value,
    args: &LogsArgs,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let mut answer = client.request("logs.tail", asked.clone()).await?;
    if answer["reset"] == true {
        screen.note("lines are missing: the files they were in are gone")?;
    }
    let mut lines = args.of(&answer);
    if asked.get("cursor").is_none() {
        if args.misses(lines.len(), answer["truncated"] == true) {
            let older = further_back(client, args, &answer).await?;
            let is_all = older.as_ref().is_some_and(|older| older.from == 0);
            if let Some(older) = older {
                (lines, answer) = (older.lines, older.answer);
            }
            if args.misses(lines.len(), !is_all) {
                screen.note(NOT_ALL)?;
            }
        }
        lines.drain(..lines.len().saturating_sub(args.most()));
    }
    for line in &lines {
        show(line, args, screen)?;
    }
    // What is behind a cursor that stays is a line that is not whole yet.
    let is_all = [&answer["size"], &asked["cursor"]].contains(&&answer["cursor"]);
    *asked = after(&answer["cursor"]);
    if args.follow && is_all {
        rest(client, Duration::from_millis(args.interval)).await?;
    }
    Ok(())
}

/// The params for what comes after a cursor.
fn after(cursor: &Value) -> Value {
    json!({"cursor": cursor, "limit": LIMIT_MAX, "maxBytes": BYTES_MAX})
}

/// Lines of more than one answer.
struct Older {
    /// The cursor that they come after.
    from: u64,
    /// Those that are wanted.
    lines: Vec<String>,
    /// The last answer.
    answer: Value,
}

/// Looks further back than the answer `last`; `None` where that is not told.
async fn further_back(
    client: &mut Client,
    args: &LogsArgs,
    last: &Value,
) -> Result<Option<Older>, CliError> {
    let size = last["size"].as_u64().unwrap_or_default();
    for back in BACK {
        let from = size.saturating_sub(back);
        let (mut at, mut lines) = (from, Vec::new());
        loop {
            let answer = client.request("logs.tail", after(&json!(at))).await?;
            if answer["reset"] == true {
                break;
            }
            lines.extend(args.of(&answer));
            let next = answer["cursor"].as_u64().unwrap_or_default();
            if next >= size || next <= at {
                return Ok(Some(Older { from, lines, answer }));
            }
            at = next;
        }
    }
    Ok(None)
}

/// Waits until it is time to ask again, or the gateway is gone. Events are of no
/// interest, but they have to be taken.
async fn rest(client: &mut Client, every: Duration) -> Result<(), CliError> {
    let gone = async {
        loop {
            if let Err(error) = client.next_event().await {
                return error;
            }
        }
    };
    match tokio::time::timeout(every, gone).await {
        Err(_) => Ok(()),
        Ok(error) => Err(error.into()),
    }
}

/// Reads the files of this machine's gateway.
fn without_gateway(
    args: &LogsArgs,
    around: &Surroundings,
    screen: &mut Screen,
    error: CliError,
) -> Result<u8, CliError> {
    let is_unreachable = matches!(error, CliError::Client(ClientError::Refused { .. }));
    let looking = Overrides { read_only: true, ..Overrides::default() };
    // Where the file cannot be read, the log is at its usual place.
    let usual = || config::load_text("{}", &around.env, &looking);
    let settings = settings(&around.env, &looking).or_else(|_| usual()).ok();
    let is_other = args.follow || args.connect.is_elsewhere(around);
    let Some(settings) = settings.filter(|_| is_unreachable && !is_other) else {
        return Err(error);
    };
    let now = SystemClock.now_ms();
    let place = LogPlace::last_used(&settings.logging, &settings.paths.state_dir, now);
    let (limit, most) = match args.level {
        Some(_) => (usize::MAX, BACK[0]),
        None => (args.most(), args.max_bytes),
    };
    let read = tail(&place, None, limit, most, now);
    let read = read.map_err(|error| CliError::Io(std::io::Error::other(error)))?;
    let file = read.file.display();
    if read.size == 0 {
        return Err(CliError::Missing(format!("no gateway runs here, and there is no log {file}")));
    }
    screen.note(&format!("no gateway runs here; from {file}:"))?;
    let lines = args.last(read.lines.iter().map(String::as_str));
    if args.misses(lines.len(), read.truncated) {
        screen.note(NOT_ALL)?;
    }
    for line in lines {
        show(line, args, screen)?;
    }
    Ok(0)
}

fn show(line: &str, args: &LogsArgs, screen: &mut Screen) -> Result<(), CliError> {
    let parsed: Value = serde_json::from_str(line).unwrap_or_default();
    if args.connect.json && parsed.is_null() {
        // Torn, or of somebody else; as OpenClaw tells of it.
        screen.line(&format::compact(&json!({"type": "raw", "raw": line})))?;
    } else if args.connect.json || parsed.is_null() {
        screen.line(line)?;
    } else {
        screen.line(&text(&parsed, level_of(&parsed).unwrap_or("-")))?;
    }
    Ok(())
}

/// A line for people: when, how bad, who, what.
fn text(line: &Value, level: &str) -> String {
    let word = |pointer: &str| line.pointer(pointer).and_then(Value::as_str);
    let time = word("/time").or_else(|| word("/_meta/date")).unwrap_or("-");
    let name: Value =
        word("/0").and_then(|name| serde_json::from_str(name).ok()).unwrap_or_default();
    let subsystem = name["subsystem"].as_str().unwrap_or("-");
    let message = word("/1").or_else(|| word("/message")).unwrap_or_default();
    in_line(&format!("{time} {level:5} {subsystem}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_with_its_time_level_and_part() {
        let line = json!({"0": r#"{"subsystem":"gateway/ws"}"#, "1": "hello a=1",
            "_meta": {"logLevelName": "WARN"}, "time": "2026-01-01T00:00:00.000+00:00"});
        let shown = text(&line, "WARN");
        assert_eq!(shown, "2026-01-01T00:00:00.000+00:00 WARN  gateway/ws: hello a=1");
    }

    #[test]
    fn what_a_line_quotes_begins_no_other_line() {
        let line = json!({"1": "refused x\r\n2026-01-01 ERROR forged\u{1b}[2J",
            "time": "2026-01-01T00:00:00.000+00:00"});
        let shown = text(&line, "WARN");
        let told = r"refused x\r\n2026-01-01 ERROR forged\u{1b}[2J";
        assert_eq!(shown, format!("2026-01-01T00:00:00.000+00:00 WARN  -: {told}"));
    }

    #[test]
    fn levels_above_which_nothing_is_are_refused() {
        assert_eq!(level("Warn"), Ok(LogLevel::Warn));
        assert!(level("silent").is_err() && level("loud").is_err());
    }
}
