//! How an answer comes about, for people of channels who have turned that on: calls of tools,
//! thoughts, and what it has used.
//!
//! Promises: calls and thoughts are messages of their own, in their order and before the
//! answer; what it has used is the end of it. Nothing of this is in the transcript. What a
//! crash takes of it is not told again. Must not: show what the session has not turned on, or a
//! credential.

use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::task::unconstrained;

use super::body::Body;
use super::channel::Action;
use super::masked::masked;
use super::parts::{Message, message_parts};
use super::replies::ReplyTo;
use super::service::Channels;
use crate::agent::feed::{Follower, Missed, RunNews, Told};
use crate::agent::status::tokens;
use crate::agent::tools::{ToolKind, ToolOutput};
use crate::agent::{Card, Family, Progress, RunEnd, RunReport, Runs, Speech};
use crate::config::channels::ReplyToMode;
use crate::protocol::message::{AgentMessage, ContentBlock, StopReason, Usage};
use crate::providers::StreamEvent;
use crate::sessions::SessionKey;
use crate::store::SessionEntry;
use crate::support::json;

/// Most messages of a run before its answer, which waits until they are sent.
const MESSAGES_MAX: u32 = 200;
/// Most characters of what a call is about …
const ABOUT_MAX: usize = 300;
/// … and of what came of it, or of a thought: it fits into one message of any channel.
const TEXT_MAX: usize = 3500;
/// Bytes of a thought after which no more is kept: so many characters have at most as many.
const THOUGHT_BYTES: usize = 4 * TEXT_MAX;

/// How a run comes about, as far as it may be told where its answer goes.
pub(super) struct Workings {
    /// None where nothing is told.
    news: Option<Follower>,
    /// Id that the answer of the model that was asked last has in the transcript.
    asked: Option<String>,
    /// What that model has thought so far.
    pub thought: String,
    /// Since when it is told, in milliseconds since the epoch: a run that is done anew under its
    /// key has other messages.
    since: u64,
    /// How many messages came of it.
    messages: u32,
    /// Whether a thought stands where the answer will: until something else is shown there.
    pub shows_thought: bool,
}

/// Something that may be told.
enum Step<'a> {
    Begins(&'a Card),
    Ends(&'a Card, &'a ToolOutput),
    Thought(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verbose {
    Off,
    On,
    Full,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reasoning {
    Off,
    On,
    Stream,
}

impl Workings {
    /// Those of a run from now on. Whoever asks by `agent` gets the answer alone.
    pub fn of(runs: &Runs, reply: &ReplyTo) -> Self {
        let is_told = reply.family == Family::Chat;
        let parts = runs.parts();
        let news = is_told.then(|| parts.feed.follow(&reply.key));
        Self::begun(news, parts.clock.now_ms())
    }

    fn begun(news: Option<Follower>, since: u64) -> Self {
        let thought = String::new();
        Self { news, asked: None, thought, since, messages: 0, shows_thought: false }
    }

    /// The next piece of news. Safe to drop and call again.
    pub async fn next(&mut self) -> Result<Arc<Told>, Missed> {
        match &mut self.news {
            Some(news) => news.next().await,
            None => std::future::pending().await,
        }
    }

    /// The next piece of news that is there already, however many were heard before it.
    pub fn now(&mut self) -> Option<Result<Arc<Told>, Missed>> {
        // To a task that has read a lot, tokio says that there is nothing more for now.
        unconstrained(self.next()).now_or_never()
    }

    fn hear<'a>(&mut self, reply: &ReplyTo, told: &'a Told) -> Option<Step<'a>> {
        if let RunNews::Stored(stored) = &told.news {
            let is_own = self.asked.as_ref() == Some(&stored.id);
            return is_own.then(|| thought_of(&stored.message)).flatten().map(Step::Thought);
        }
        // Also sub-agents are heard here, and those who wait for the lane before it.
        told.run.as_ref().filter(|run| *run.id == *reply.run_id)?;
        match &told.news {
            RunNews::Asks { entry_id, .. } => {
                self.asked = Some(entry_id.clone());
                self.thought.clear();
            }
            RunNews::Stream(StreamEvent::ThinkingDelta { delta, .. })
                if self.thought.len() < THOUGHT_BYTES =>
            {
                self.thought.push_str(delta);
            }
            RunNews::ToolBegins(card) => return Some(Step::Begins(card)),
            RunNews::ToolEnds(card, output) => return Some(Step::Ends(card, output)),
            _ => {}
        }
        None
    }
}

impl Step<'_> {
    /// What it is in a message, where it is to be told.
    fn words(&self, verbose: Verbose, reasoning: Reasoning) -> Option<String> {
        match self {
            Self::Begins(card) if verbose != Verbose::Off => Some(headline(card)),
            Self::Ends(card, output) if verbose == Verbose::Full => {
                // A fence in it would end ours.
                let text = fit(output.to_text().trim(), TEXT_MAX).replace("```", "'''");
                let shown = if text.is_empty() { "(no output)" } else { text.as_str() };
                Some(format!("{}\n```\n{shown}\n```", headline(card)))
            }
            Self::Thought(thought) if reasoning == Reasoning::On => Some(reasoned(thought)),
            _ => None,
        }
    }
}

impl Channels {
    /// Tells of a piece of news what is to be told before the answer; of what was missed,
    /// nothing.
    pub(super) async fn tell(
        &self,
        reply: &ReplyTo,
        workings: &mut Workings,
        told: Result<Arc<Told>, Missed>,
    ) {
        let Ok(told) = told else { return };
        let Some(step) = workings.hear(reply, &told) else { return };
        let (verbose, reasoning) = self.levels(reply).await;
        let Some(text) = step.words(verbose, reasoning) else { return };
        let address = &reply.address;
        let Some(account) = self.account(&address.channel, &address.account) else { return };
        if workings.messages >= MESSAGES_MAX {
            return;
        }
        workings.messages += 1;
        let delivery = format!("before:{}:{}:{}", reply.run_id, workings.since, workings.messages);
        let quotes = ReplyToMode::Off;
        let first = Body::default();
        let message = Message { text: &text, media: &[], first, quotes, end_quotes: false };
        let parts = message_parts(&account, &delivery, address, &message);
        if let Err(error) = self.put(parts).await {
            tracing::warn!(run = reply.run_id, %error, "what a run does is not told");
        }
    }

    /// What may be shown of an answer while it is written, and whether that is a thought:
    /// nothing where messages come before it, as it would stand above them.
    pub(super) async fn growing(
        &self,
        reply: &ReplyTo,
        thought: &str,
        progress: &Progress,
    ) -> (String, bool) {
        let (verbose, reasoning) = self.levels(reply).await;
        if verbose != Verbose::Off || reasoning == Reasoning::On {
            return (String::new(), false);
        }
        let said = progress.paragraphs();
        let is_thinking = said.trim().is_empty() && !thought.trim().is_empty();
        if reasoning == Reasoning::Stream && is_thinking {
            return (reasoned(whole_words(thought)), true);
        }
        (said, false)
    }

    /// Takes away a thought that stands where no answer will.
    pub(super) async fn take_back(&self, reply: &ReplyTo, message_id: &str) {
        let address = &reply.address;
        let account = self.account(&address.channel, &address.account);
        let Some(channel) = account.and_then(|it| it.channel()) else { return };
        let params = json!({"messageId": message_id});
        let action = Action { name: "delete", to: &address.target, thread: None, params: &params };
        if let Err(error) = channel.act(action).await {
            tracing::debug!(run = reply.run_id, %error, "a thought stays where it was shown");
        }
    }

    /// An answer with what it has used, where that is turned on. What is silent stays so.
    pub(super) async fn footed(
        &self,
        reply: &ReplyTo,
        report: &RunReport,
        speech: Speech,
    ) -> Speech {
        let is_empty = speech.text.trim().is_empty() && speech.files.is_empty();
        if reply.family != Family::Chat || report.end != RunEnd::Answered || is_empty {
            return speech;
        }
        let level = self.entry_of(reply).await.response_usage;
        let line = footer(level.as_deref(), &report.progress.used, &reply.key);
        let Some(line) = line else { return speech };
        let text = match speech.text.trim_end() {
            "" => line,
            text => format!("{text}\n\n{line}"),
        };
        Speech { text, ..speech }
    }

    /// What of a run's workings is told, as it is set now.
    async fn levels(&self, reply: &ReplyTo) -> (Verbose, Reasoning) {
        if reply.family != Family::Chat {
            return (Verbose::Off, Reasoning::Off);
        }
        let entry = self.entry_of(reply).await;
        let (settings, keys) = (self.0.parts.settings.now(), self.0.parts.keys.now());
        let (agents, agent) = (&settings.agents, reply.key.agent(&keys));
        // As in the original: calls in a group are nothing for all, those in a topic may be.
        let is_crowd = reply.key.kind() == "group" && reply.address.thread.is_empty();
        let level = agents.verbose_level(agent.as_str(), entry.verbose_level.as_deref());
        let verbose = match level {
            Some("on") if !is_crowd => Verbose::On,
            Some("full") if !is_crowd => Verbose::Full,
            _ => Verbose::Off,
        };
        let level = agents.reasoning_level(agent.as_str(), entry.reasoning_level.as_deref());
        let reasoning = match level {
            Some("on") => Reasoning::On,
            Some("stream") => Reasoning::Stream,
            _ => Reasoning::Off,
        };
        (verbose, reasoning)
    }

    async fn entry_of(&self, reply: &ReplyTo) -> SessionEntry {
        let entry = self.0.parts.sessions.entry(&reply.key).await;
        let entry = entry.inspect_err(|error| {
            tracing::warn!(run = reply.run_id, %error, "settings of a session are not readable");
        });
        entry.ok().flatten().unwrap_or_default()
    }
}

/// A call in one line, such as `🛠️ exec: list files`.
fn headline(card: &Card) -> String {
    let sign = match card.kind {
        ToolKind::Reads => "🔎",
        ToolKind::Changes => "✏️",
        ToolKind::Command => "🛠️",
    };
    let name = &card.call.name;
    let about = card.meta.as_deref().unwrap_or_default();
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    if about.is_empty() {
        return format!("{sign} {name}");
    }
    format!("{sign} {name}: `{}`", fit(&about, ABOUT_MAX).replace('`', "'"))
}

/// What was thought before a model said something, unless that was cut off.
fn thought_of(message: &AgentMessage) -> Option<String> {
    let AgentMessage::Assistant(answer) = message else { return None };
    let thoughts = answer.content.iter().filter_map(|block| match block {
        ContentBlock::Thinking(thought) => Some(thought.thinking.trim()),
        _ => None,
    });
    let thoughts: Vec<_> = thoughts.filter(|thought| !thought.is_empty()).collect();
    let is_told = !thoughts.is_empty() && answer.stop_reason != StopReason::Aborted;
    is_told.then(|| thoughts.join("\n\n"))
}

/// A thought that goes on, without its last word: half a credential does not look like one.
fn whole_words(thought: &str) -> &str {
    thought.trim_end_matches(|c: char| c.is_ascii_graphic())
}

fn reasoned(thought: &str) -> String {
    format!("Reasoning:\n{}", fit(thought.trim(), TEXT_MAX))
}

/// What a run has used, in one line.
fn footer(level: Option<&str>, used: &Usage, key: &SessionKey) -> Option<String> {
    let is_full = match level {
        Some("on" | "tokens") => false,
        Some("full") => true,
        _ => return None,
    };
    let cached = used.cache_read + used.cache_write;
    if used.input + used.output + cached == 0 {
        return None;
    }
    let mut line = format!("Usage: {} in / {} out", tokens(used.input), tokens(used.output));
    if cached > 0 {
        let (read, written) = (tokens(used.cache_read), tokens(used.cache_write));
        let _ = write!(line, " · cache {read} cached / {written} new");
    }
    if used.cost.total > 0.0 {
        let _ = write!(line, " · est ${:.4}", used.cost.total);
    }
    if is_full {
        let _ = write!(line, " · session `{key}`");
    }
    Some(line)
}

/// As many characters of a text, and a sign that there are more.
fn cut(text: &str, max: usize) -> String {
    let kept = text.char_indices().nth(max).and_then(|(at, _)| text.get(..at));
    kept.map_or_else(|| text.to_owned(), |kept| format!("{kept}…"))
}

/// The same without credentials, which are looked for before it is cut: half of one does not
/// look like one.
fn fit(text: &str, max: usize) -> String {
    cut(&masked(text), max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::feed::Feed;
    use crate::protocol::message::{Cost, ToolCall};
    use crate::sessions::KeyRules;

    fn card(meta: Option<&str>, kind: ToolKind) -> Card {
        let call = json!({"type": "toolCall", "id": "c", "name": "exec", "arguments": {}});
        let call: ToolCall = serde_json::from_value(call).unwrap();
        Card { call, meta: meta.map(str::to_owned), kind, started_at: 0 }
    }

    #[test]
    fn a_call_is_one_short_line_and_what_came_of_it_stays_in_its_fence() {
        let plain = card(None, ToolKind::Reads);
        assert_eq!(headline(&plain), "🔎 exec");
        let long = format!("print `{}`\nand more", "x".repeat(ABOUT_MAX));
        let line = headline(&card(Some(&long), ToolKind::Command));
        assert!(line.starts_with("🛠️ exec: `print 'xxx") && line.ends_with("x…`"), "{line}");
        let line = headline(&card(Some("call --token\nabc"), ToolKind::Command));
        assert_eq!(line, "🛠️ exec: `call --token ***`");
        let output = ToolOutput::text("a\n```\nAPI_KEY=b\n");
        let ends = Step::Ends(&plain, &output);
        assert_eq!(ends.words(Verbose::On, Reasoning::On), None);
        let full = ends.words(Verbose::Full, Reasoning::Off).unwrap();
        assert_eq!(full, "🔎 exec\n```\na\n'''\nAPI_KEY=***\n```");
        let nothing = ToolOutput::text(" \n");
        let full = Step::Ends(&plain, &nothing).words(Verbose::Full, Reasoning::Off).unwrap();
        assert_eq!(full, "🔎 exec\n```\n(no output)\n```");
    }

    #[tokio::test]
    async fn all_news_that_are_there_are_heard_at_once() {
        let (feed, key) = (Feed::default(), SessionKey::parse("main", &KeyRules::default()));
        let mut workings = Workings::begun(Some(feed.follow(&key)), 0);
        for _ in 0..1000 {
            feed.of_session(&key, || RunNews::Begins);
        }
        assert_eq!(std::iter::from_fn(|| workings.now()).count(), 1000);
    }

    #[test]
    fn no_half_of_a_credential_is_shown() {
        let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
        let token = format!("ghp_{}", "b".repeat(20));
        // The text is much shorter once the first is taken out.
        let long = "a".repeat(2 * TEXT_MAX - begin.len() - end.len() - 10);
        let shown = fit(&format!("{begin}{long}{end} {token}"), TEXT_MAX);
        assert_eq!(shown, format!("{begin}*** ghp_***"));
        // What is not all there yet waits for the rest.
        for (so_far, whole) in [("I use ghp_b", "I use "), ("I use it ", "I use it "), ("是", "是")]
        {
            assert_eq!(whole_words(so_far), whole);
        }
    }

    #[test]
    fn a_footer_tells_what_there_is_to_tell() {
        let key = SessionKey::parse("main", &KeyRules::default());
        let used = Usage { input: 1200, output: 40, ..Usage::default() };
        let of = |level, used: &Usage| footer(level, used, &key);
        for level in [None, Some("off"), Some("other")] {
            assert_eq!(of(level, &used), None);
        }
        assert_eq!(of(Some("full"), &Usage::default()), None);
        assert_eq!(of(Some("tokens"), &used).unwrap(), "Usage: 1.2k in / 40 out");
        let cost = Cost { total: 0.0125, ..Cost::default() };
        let priced = Usage { cache_read: 5, cost, ..used };
        let full = "Usage: 1.2k in / 40 out · cache 5 cached / 0 new · est $0.0125 \
            · session `agent:main:main`";
        assert_eq!(of(Some("full"), &priced).unwrap(), full);
    }
}
