//! `clawgate sessions export`: sessions as files of Claude Code, or of our own.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::files::{Folder, Printed};
use crate::app;
use crate::cli::{Screen, say};
use crate::config::{self, Env, Overrides, Settings};
use crate::dialects::claude::format::SessionFacts;
use crate::dialects::claude::{export, history};
use crate::sessions::{
    Media, SessionKey, Source, StoredSession, StoredTranscript, TranscriptFormat, stored_sessions,
};
use crate::support::json;

/// Exit code when something was left out.
const LEFT_OUT: u8 = 3;
/// So many sub-agents may ask sub-agents in a row; more is a loop.
const DEPTH_MAX: usize = 16;

/// Arguments of `clawgate sessions export`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "With --out DIR, a session becomes DIR/<folder it works in>/<id>.jsonl, as Claude \
    Code has it below\n~/.claude/projects, and its sub-agents <id>/subagents/agent-<id>.jsonl \
    beside it; in the other\nformats DIR/<agent>/<id>.jsonl. Sessions are only read; the gateway \
    may run.\n\nExit codes: 0 all was written, 1 it failed, 2 wrong arguments, 3 something was \
    left out."
)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of the command
pub struct ExportArgs {
    /// Key or id of a session
    #[arg(value_name = "KEY|ID", required_unless_present = "all", conflicts_with = "all")]
    session: Option<String>,
    /// All sessions; needs --out DIR
    #[arg(long, requires = "out")]
    all: bool,
    /// Format of the files
    #[arg(long, value_enum, default_value_t = Format::Claude)]
    format: Format,
    /// Folder to write into; - prints one session
    #[arg(long, value_name = "DIR|-")]
    out: Option<PathBuf>,
    /// Keep thinking that Anthropic's API has not signed; that API refuses to go
    /// on with a session that has it
    #[arg(long)]
    all_thinking: bool,
    /// Write over files that are there
    #[arg(long)]
    force: bool,
    /// Tell what was written as JSON; what is printed is lines of JSON in any case
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines of Claude Code
    Claude,
    /// A header and a tree of entries, as OpenClaw has it
    Openclaw,
    /// One message per line
    Messages,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Openclaw => "openclaw",
            Self::Messages => "messages",
        }
    }
}

/// Exports.
pub fn run(args: &ExportArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let settings = config::load(env, &Overrides { read_only: true, ..Overrides::default() })?;
    let source = Source {
        state_dir: settings.paths.state_dir.clone(),
        database: settings.paths.database(),
        rules: app::key_rules(&settings),
    };
    let sessions = stored_sessions(&source)?;
    let media = Media::new(&source.state_dir);
    let (format, all_thinking) = (args.format, args.all_thinking);
    let export = Export { format, all_thinking, settings, source, sessions, media };
    let out = args.out.as_deref().filter(|out| *out != Path::new("-"));
    match (out, &args.session) {
        (Some(out), wanted) => {
            let folder = Folder::new(out, args.force)?;
            let (chosen, is_one) = match wanted {
                Some(wanted) => (vec![export.find(wanted)?], true),
                None => (export.roots(), false),
            };
            let mut report = Report::new(chosen.len());
            for session in chosen {
                report.progress();
                export.put_into(session, &folder, is_one, &mut report)?;
            }
            report.tell(args)
        }
        (None, Some(wanted)) => {
            let session = export.find(wanted)?;
            match export.print(session) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
                Ok(false) => bail!(nothing_said(session)),
                _ => Ok(ExitCode::SUCCESS),
            }
        }
        (None, None) => bail!("all sessions do not fit on standard output; give --out DIR"),
    }
}

fn nothing_said(session: &StoredSession) -> String {
    format!("nothing was said in {} yet", session.key.as_str())
}

/// What there is to export.
struct Export {
    format: Format,
    all_thinking: bool,
    settings: Settings,
    source: Source,
    sessions: Vec<StoredSession>,
    media: Media,
}

impl Export {
    fn find(&self, wanted: &str) -> anyhow::Result<&StoredSession> {
        let key = SessionKey::parse(wanted, &self.source.rules);
        let of_id = |session: &&StoredSession| session.entry.session_id == wanted;
        let of_key = |session: &&StoredSession| session.key == key;
        let found = self.sessions.iter().find(of_id).or(self.sessions.iter().find(of_key));
        found.with_context(|| {
            format!(
                "there is no session \"{wanted}\"; `clawgate sessions list` shows those that \
                 there are"
            )
        })
    }

    /// All sessions; for Claude Code without those that go with another one.
    fn roots(&self) -> Vec<&StoredSession> {
        let keys: BTreeSet<_> = self.sessions.iter().map(|session| &session.key).collect();
        let goes_along = |session: &StoredSession| {
            let asked = session.entry.spawned_by.as_deref();
            let asked = asked.map(SessionKey::from_canonical);
            self.format == Format::Claude && asked.is_some_and(|key| keys.contains(&key))
        };
        self.sessions.iter().filter(|session| !goes_along(session)).collect()
    }

    /// The sub-agents of a session, and theirs.
    fn children(&self, of: &SessionKey) -> Vec<&StoredSession> {
        let mut found: Vec<&StoredSession> = Vec::new();
        let mut asking = vec![of];
        for _ in 0..DEPTH_MAX {
            let is_child = |session: &&StoredSession| {
                let asked = session.entry.spawned_by.as_deref();
                asking.iter().any(|key| asked == Some(key.as_str()))
                    && !found.contains(session)
                    && session.key != *of
            };
            let next: Vec<_> = self.sessions.iter().filter(is_child).collect();
            asking = next.iter().map(|session| &session.key).collect();
            found.extend(next);
        }
        found
    }

    fn facts(
        &self,
        session: &StoredSession,
        transcript: &StoredTranscript<'_>,
    ) -> io::Result<SessionFacts> {
        let agent = session.key.agent(&self.source.rules);
        let agent = self.settings.agents.agent_or_default(agent.as_str());
        let facts = history::facts_of(&session.entry, transcript, &agent.workspace)?;
        Ok(SessionFacts { is_to_go_on: !self.all_thinking, ..facts })
    }

    /// Prints a session; whether it has a transcript.
    fn print(&self, session: &StoredSession) -> io::Result<bool> {
        let Some(file) = session.open()? else { return Ok(false) };
        let transcript = self.transcript(&file)?;
        let facts = Arc::new(self.facts(session, &transcript)?);
        let mut out = BufWriter::new(Printed(Screen::stdio(true)));
        self.write(session, &transcript, &facts, &mut out)?;
        out.flush().map(|()| true)
    }

    fn transcript<'f>(&self, file: &'f std::fs::File) -> io::Result<StoredTranscript<'f>> {
        let length = file.metadata()?.len();
        Ok(StoredTranscript::new(file, length, Some(self.media.clone())))
    }

    fn write(
        &self,
        session: &StoredSession,
        transcript: &StoredTranscript<'_>,
        facts: &Arc<SessionFacts>,
        to: &mut dyn Write,
    ) -> io::Result<u64> {
        match self.format {
            Format::Claude => export::write(transcript, facts, &session.entry, to),
            Format::Openclaw => transcript.write_as(TranscriptFormat::OpenClaw, session, to),
            Format::Messages => transcript.write_as(TranscriptFormat::Messages, session, to),
        }
    }

    fn put_into(
        &self,
        session: &StoredSession,
        folder: &Folder,
        is_one: bool,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let cannot = || format!("cannot read {}", session.file.display());
        let file = match session.open() {
            Ok(Some(file)) => file,
            Ok(None) if is_one => bail!(nothing_said(session)),
            Ok(None) => return Ok(()),
            Err(error) if is_one => return Err(error).with_context(cannot),
            Err(error) => {
                report.unreadable(session, &error);
                return Ok(());
            }
        };
        let transcript = self.transcript(&file).with_context(cannot)?;
        let facts = Arc::new(self.facts(session, &transcript).with_context(cannot)?);
        let name = if self.format == Format::Claude {
            export::file(&facts)
        } else {
            let agent = session.key.agent(&self.source.rules);
            PathBuf::from(agent.as_str()).join(session.file.file_name().unwrap_or_default())
        };
        let written = folder.write(&name, |to| self.write(session, &transcript, &facts, to))?;
        report.note(session, &name, written);
        if self.format == Format::Claude {
            for child in self.children(&session.key) {
                self.child(child, &facts, folder, report)?;
            }
        }
        Ok(())
    }

    fn child(
        &self,
        session: &StoredSession,
        of: &SessionFacts,
        folder: &Folder,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let cannot = || format!("cannot read {}", session.file.display());
        let file = match session.open() {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(()),
            Err(error) => {
                report.unreadable(session, &error);
                return Ok(());
            }
        };
        let transcript = self.transcript(&file).with_context(cannot)?;
        let facts = Arc::new(export::sidechain(of, &session.key, &session.entry));
        let name = export::file(&facts);
        let written = folder.write(&name, |to| self.write(session, &transcript, &facts, to))?;
        report.note(session, &name, written);
        Ok(())
    }
}

/// What became of the sessions.
struct Report {
    chosen: usize,
    seen: usize,
    written: Vec<Value>,
    left_out: Vec<Value>,
    shows_progress: bool,
}

impl Report {
    fn new(chosen: usize) -> Self {
        let shows_progress = chosen > 1 && io::stderr().is_terminal();
        Self { chosen, seen: 0, written: Vec::new(), left_out: Vec::new(), shows_progress }
    }

    fn progress(&mut self) {
        self.seen = self.seen.saturating_add(1);
        self.draw(&format!("{} of {} sessions", self.seen, self.chosen));
    }

    fn draw(&self, text: &str) {
        if self.shows_progress {
            let mut err = io::stderr().lock();
            // A terminal that is gone is no reason to stop.
            let _ = write!(err, "\r{text}\x1b[K").and_then(|()| err.flush());
        }
    }

    fn note(&mut self, session: &StoredSession, name: &Path, written: Option<(PathBuf, u64)>) {
        let (key, id) = (session.key.as_str(), &session.entry.session_id);
        match written {
            Some((file, lines)) => self.written.push(json!({"key": key, "sessionId": id,
                "file": file.to_string_lossy(), "lines": lines})),
            None => self.left_out.push(json!({"key": key, "sessionId": id,
                "file": name.to_string_lossy(),
                "why": "it is there already; --force writes over it"})),
        }
    }

    /// One that cannot be opened keeps no other from being written.
    fn unreadable(&mut self, session: &StoredSession, error: &io::Error) {
        let (key, id) = (session.key.as_str(), &session.entry.session_id);
        self.left_out.push(json!({"key": key, "sessionId": id,
            "file": session.file.to_string_lossy(), "why": format!("it cannot be read: {error}")}));
    }

    fn tell(self, args: &ExportArgs) -> anyhow::Result<ExitCode> {
        self.draw("");
        let text = if args.json {
            let out = args.out.as_ref().map(|out| out.to_string_lossy());
            let report = json!({"format": args.format.name(), "out": out,
                "sessions": self.written, "leftOut": self.left_out});
            format!("{report:#}\n")
        } else {
            let word = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let lines = self.written.iter().map(|row| format!("{}\n", word(row, "file")));
            let left_out = self.left_out.iter();
            let left_out = left_out
                .map(|row| format!("left out: {}: {}\n", word(row, "file"), word(row, "why")));
            lines.chain(left_out).collect()
        };
        say(&text)?;
        let is_whole = self.left_out.is_empty();
        Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(LEFT_OUT) })
    }
}
