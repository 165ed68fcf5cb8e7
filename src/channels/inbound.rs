//! A message that came by a channel: from who wrote it to the run that answers.

use std::sync::Arc;

use serde_json::Value;

use super::access::{self, Verdict};
use super::channel::{InletError, Said, Taken};
use super::remote;
use super::replies::ReplyTo;
use super::route;
use super::service::Channels;
use super::state::Account;
use crate::agent::Family;
use crate::config::DmScope;
use crate::config::channels::ChannelKind;
use crate::sessions::{PeerKind, SessionEntry, SessionKey};
use crate::store::{OutboxAddress, StoreError};
use crate::support::json;

/// Longest name that is shown to the model, in characters: people choose them.
const NAME_MAX: usize = 64;
/// Longest message, in characters; services allow far less.
const TEXT_MAX: usize = 100_000;

/// Where a message was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chat {
    /// What kind of place it is.
    pub kind: PeerKind,
    /// The channel's id of it; for a direct message that of the person.
    pub id: String,
    /// What it is called.
    pub title: Option<String>,
    /// Thread in it.
    pub thread: Option<String>,
    /// The id that it had before. Where a channel says so, the service tells that it has
    /// another, and nobody says anything.
    pub former: Option<String>,
}

/// Who wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The channel's id, which never changes.
    pub id: String,
    /// What the person is called; proves nothing.
    pub name: Option<String>,
}

/// A file that is still with the service: it is fetched for people who may
/// write only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// The service's id of it.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What the service says that it is.
    pub mime_type: Option<String>,
    /// How many bytes the service says that it has.
    pub size: Option<u64>,
}

/// A message as a channel has read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Inbound {
    /// The channel's id of it, of its own in the chat.
    pub message_id: String,
    /// Who of ours it came to, as the service calls them, where each counts messages
    /// by itself: another bot may take the place of this one in the account.
    pub source: Option<String>,
    /// Where it was written.
    pub chat: Chat,
    /// Who wrote it.
    pub sender: Sender,
    /// What it says.
    pub text: String,
    /// Whether somebody else has said that, and it was forwarded.
    pub is_forwarded: bool,
    /// Files, as `chat.send` takes them.
    pub attachments: Vec<Value>,
    /// Files that are still with the service.
    pub files: Vec<RemoteFile>,
    /// Whether it is to the agent by its name, or answers it.
    pub is_mention: bool,
    /// What it says without the name of the agent before or behind it, where it has that and
    /// the channel knows it.
    pub without_name: Option<String>,
    /// What it answers, in words.
    pub quoted: Option<String>,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// This run answers it.
    Accepted(String),
    /// Nobody answers it, for this reason.
    Ignored(&'static str),
    /// The person was told a code.
    Pairing,
}

impl Channels {
    /// Tells the service that a message is there, where it waits to hear that. The message
    /// does not wait until it has heard.
    pub(super) fn acknowledge(&self, account: &Account, inbound: &Inbound) {
        let Some(channel) = account.channel() else { return };
        let id = inbound.message_id.clone();
        let telling = async move { channel.acknowledge(&id).await };
        self.0.parts.tasks.spawn("acknowledge", telling);
    }

    /// Takes a message, once those that came before it in its chat are taken; in a task of
    /// its own: whoever brings it may go away meanwhile, and neither its place nor a reply that
    /// is expected is lost. `None` when that broke.
    pub(super) async fn take_in(
        &self,
        account: &Arc<Account>,
        inbound: Inbound,
    ) -> Option<Result<Received, String>> {
        let config = &account.config;
        let chat = format!("{}:{}:{}", config.kind.as_str(), config.id, inbound.chat.id);
        let turn = self.0.turns.take(chat);
        let (channels, account) = (self.clone(), Arc::clone(account));
        let work = async move {
            let _turn = turn.await;
            channels.receive(&account, inbound).await
        };
        self.0.parts.tasks.result_of("inbound", work).await
    }

    /// A message came. An error says why it cannot be taken now; whoever has it
    /// should come again.
    async fn receive(
        &self,
        account: &Arc<Account>,
        mut inbound: Inbound,
    ) -> Result<Received, String> {
        account.heard(self.0.parts.clock.now_ms());
        if let Some(former) = &inbound.chat.former {
            self.note_move(account, former, &inbound.chat.id).await.map_err(failed)?;
            return Ok(Received::Ignored("it tells that its group has another id"));
        }
        if inbound.sender.id.trim().is_empty() || inbound.message_id.trim().is_empty() {
            return Ok(Received::Ignored("it does not say who wrote it"));
        }
        inbound.chat.former = self.former_of(account, &inbound.chat).await.map_err(failed)?;
        let verdict = access::judge(self, account, &inbound).await.map_err(failed)?;
        match verdict {
            Verdict::Allowed => {}
            Verdict::Denied(why) => return Ok(Received::Ignored(why)),
            Verdict::Unknown => {
                self.offer_code(account, &inbound).await.map_err(failed)?;
                return Ok(Received::Pairing);
            }
        }
        self.pass_on(account, inbound).await
    }

    async fn pass_on(
        &self,
        account: &Arc<Account>,
        mut inbound: Inbound,
    ) -> Result<Received, String> {
        let (parts, config) = (&self.0.parts, &account.config);
        let reply = self.reply_to(account, &inbound);
        let (key, run_id) = (reply.key.clone(), reply.run_id.clone());
        let entry = parts.sessions.entry(&key).await.map_err(|error| error.to_string())?;
        let is_as_written = self.is_as_written(&key, &inbound.text).await?;
        if !access::is_addressed(config, &inbound, entry.as_ref(), is_as_written) {
            self.note_aside(account, &reply.address, entry.as_ref(), &inbound);
            return Ok(Received::Ignored("it is not to the agent"));
        }
        if !parts.store.outbox_of(run_id.clone()).await.map_err(failed)?.is_empty() {
            // It came before, and is answered: a command has no run that tells so.
            return Ok(Received::Accepted(run_id));
        }
        let Some(runs) = self.runs() else { return Err("the gateway is starting".into()) };
        let is_taken = runs.is_taken(reply.family, &run_id).await.map_err(failed)?;
        drop(runs);
        if is_taken {
            // It came before, and its files need not come again.
            self.expect(reply).await.map_err(failed)?.settle(true).await;
            return Ok(Received::Accepted(run_id));
        }
        let stop = self.stop_of(&inbound)?;
        let is_plain = stop.is_none() && !is_as_written;
        if is_plain {
            self.react(account, &reply, &inbound, entry.as_ref());
        }
        if let Some(channel) = account.channel() {
            remote::fetch_all(&*channel, &mut inbound).await;
        }
        let session = self.note_context(account, &key, &inbound).await?;
        // Before it is accepted: a crash between the two loses no reply.
        let place = reply.address.clone();
        let expected = self.expect(reply).await.map_err(failed)?;
        let (before, text) = stop.map_or_else(|| words(&inbound), |text| (None, text));
        self.0.history.goes_on_in(&place, &session);
        let before = if is_plain { self.behind_history(account, &place, before) } else { before };
        let said = Said {
            key,
            run_id: run_id.clone(),
            before,
            text,
            attachments: inbound.attachments,
            channel: config.kind.as_str(),
            account: config.id.clone(),
            person: inbound.sender.id.clone(),
            is_owner: parts.settings.now().channels.is_owner(config.kind, &inbound.sender.id),
            place: place.clone(),
        };
        match self.inlet()?.accept(said).await {
            Ok(Taken::Run) => {
                if is_plain {
                    self.0.history.clear(&place);
                }
                expected.settle(true).await;
            }
            Ok(Taken::Stopped(count)) => expected.answer(&stopped(count)).await?,
            Err(InletError::Refused(why)) => expected.answer(&format!("⚠️ {why}")).await?,
            Err(InletError::Later(why)) => {
                expected.settle(false).await;
                return Err(why);
            }
        }
        Ok(Received::Accepted(run_id))
    }

    /// How a message is answered: by which run, in which session, and where.
    fn reply_to(&self, account: &Account, inbound: &Inbound) -> ReplyTo {
        let (parts, config) = (&self.0.parts, &account.config);
        let (kind, id) = (config.kind.as_str(), &config.id);
        let channels = &parts.settings.now().channels;
        let source = inbound.source.as_ref().map(|source| format!("{source}:"));
        let source = source.unwrap_or_default();
        let message = message_name(config.kind, inbound);
        ReplyTo {
            run_id: format!("{kind}:{id}:{source}{message}"),
            family: Family::Chat,
            key: route::session_of(channels, config, &inbound.chat, &parts.keys.now()),
            address: address(account, inbound),
            reply_to: Some(format!("{source}{}", inbound.message_id)),
            is_overheard: inbound.chat.kind != PeerKind::Direct && !inbound.is_mention,
        }
    }

    /// Whether a message is handed on as it was written: it is a command, or names a skill.
    /// An error says that nobody knows that yet.
    async fn is_as_written(&self, key: &SessionKey, text: &str) -> Result<bool, String> {
        if !text.trim_start().starts_with('/') {
            return Ok(false);
        }
        self.inlet()?.is_command(key, text).await.map_err(|error| error.to_string())
    }

    /// The words of a message that says to stop what runs and nothing else, without whom it
    /// is to.
    fn stop_of(&self, inbound: &Inbound) -> Result<Option<String>, String> {
        if !inbound.attachments.is_empty() || !inbound.files.is_empty() {
            return Ok(None);
        }
        let said = inbound.without_name.as_deref().unwrap_or(&inbound.text);
        Ok(self.inlet()?.is_stop(said).then(|| said.to_owned()))
    }

    /// Tells whoever wrote a message that it was given up, if it was to be answered.
    pub(super) async fn tell_given_up(
        &self,
        account: &Arc<Account>,
        mut inbound: Inbound,
        why: &str,
    ) -> Result<(), String> {
        if inbound.chat.former.is_some() {
            // Nobody has said anything.
            return Ok(());
        }
        inbound.chat.former = self.former_of(account, &inbound.chat).await.map_err(failed)?;
        let verdict = access::judge(self, account, &inbound).await.map_err(failed)?;
        if !matches!(verdict, Verdict::Allowed) {
            return Ok(());
        }
        let reply = self.reply_to(account, &inbound);
        let entry = self.0.parts.sessions.entry(&reply.key).await;
        let entry = entry.map_err(|error| error.to_string())?;
        let is_as_written = self.is_as_written(&reply.key, &inbound.text).await;
        let is_as_written = is_as_written.unwrap_or_default();
        if !access::is_addressed(&account.config, &inbound, entry.as_ref(), is_as_written) {
            return Ok(());
        }
        let expected = self.expect(reply).await.map_err(failed)?;
        expected.answer(&format!("⚠️ {why}\nSend your message again to get an answer.")).await
    }

    /// Writes into the session where its messages come from: that is where jobs and
    /// heartbeats speak. Answers its id.
    async fn note_context(
        &self,
        account: &Arc<Account>,
        key: &SessionKey,
        inbound: &Inbound,
    ) -> Result<String, String> {
        let Some(runs) = self.runs() else { return Err("the gateway is starting".into()) };
        let parts = &self.0.parts;
        let cwd = runs.parts().agent_of(key).workspace;
        let entry = parts.sessions.ensure(key, &cwd).await.map_err(|error| error.to_string())?;
        let config = &account.config;
        if self.is_main(key) && access::is_guest(config, inbound) {
            tracing::debug!(session = %key, person = inbound.sender.id, "route left to its owner");
            return Ok(entry.session_id);
        }
        let (channel, account_id) = (config.kind.as_str(), config.id.clone());
        let inbound = inbound.clone();
        let change = move |entry: &mut SessionEntry| {
            note_source(entry, channel, &account_id, &inbound);
        };
        let noted = parts.sessions.update(key, change).await;
        noted.map(|entry| entry.session_id).map_err(|error| error.to_string())
    }

    /// Whether a session is the main one of its agent, and direct messages share it.
    fn is_main(&self, key: &SessionKey) -> bool {
        let keys = self.0.parts.keys.now();
        keys.dm_scope == DmScope::Main && *key == SessionKey::main(&key.agent(&keys), &keys)
    }
}

fn note_source(entry: &mut SessionEntry, channel: &str, account: &str, inbound: &Inbound) {
    let (chat, sender) = (&inbound.chat, &inbound.sender);
    let chat_type = match chat.kind {
        PeerKind::Direct => "direct",
        PeerKind::Group => "group",
        PeerKind::Channel => "channel",
    };
    entry.channel = Some(channel.into());
    entry.chat_type = Some(chat_type.into());
    entry.last_channel = Some(channel.into());
    let mut context = json!({"channel": channel, "to": chat.id, "accountId": account});
    let mut last = json!({"lastTo": chat.id, "lastAccountId": account});
    if let Some(thread) = &chat.thread {
        context["threadId"] = json!(thread);
        last["lastThreadId"] = json!(thread);
    }
    entry.extra.shift_remove("lastThreadId");
    if let Value::Object(members) = last {
        entry.extra.extend(members);
    }
    entry.delivery_context = Some(context);
    let title = chat.title.as_deref().or(sender.name.as_deref()).map(short_name);
    let is_shared = chat.kind != PeerKind::Direct;
    if is_shared && let Some(title) = &title {
        entry.display_name = Some(title.clone());
        entry.extra.insert("subject".into(), json!(title));
    }
    let mut origin = json!({"provider": channel, "surface": channel, "chatType": chat_type,
        "from": format!("{channel}:{}", sender.id), "to": format!("{channel}:{}", chat.id),
        "accountId": account});
    if let Some(title) = title {
        origin["label"] = json!(title);
    }
    if let Some(thread) = &chat.thread {
        origin["threadId"] = json!(thread);
    }
    entry.origin = Some(origin);
}

/// Where the answer to a message goes.
pub(super) fn address(account: &Account, inbound: &Inbound) -> OutboxAddress {
    OutboxAddress {
        channel: account.config.kind.as_str().into(),
        account: account.config.id.clone(),
        target: inbound.chat.id.clone(),
        thread: inbound.chat.thread.clone().unwrap_or_default(),
    }
}

/// A message as the id of its run has it: no other message of the account is called so.
fn message_name(kind: ChannelKind, inbound: &Inbound) -> String {
    let (chat, id) = (&inbound.chat, &inbound.message_id);
    if kind == ChannelKind::Telegram {
        // There a chat has one id whatever it is, and counts the messages of all its threads.
        return format!("{}:{id}", chat.id);
    }
    let plain = |text: &str| text.replace('%', "%25").replace(':', "%3A");
    let of_kind = match chat.kind {
        PeerKind::Direct => "",
        PeerKind::Group => "group:",
        PeerKind::Channel => "channel:",
    };
    let thread = chat.thread.as_deref().filter(|thread| !thread.is_empty());
    let thread = thread.map(|thread| format!(":thread:{}", plain(thread))).unwrap_or_default();
    format!("{of_kind}{}{thread}:{}", plain(&chat.id), plain(id))
}

/// What the model reads before the words of a sender, and these: what somebody else has said is
/// before them.
pub(super) fn words(inbound: &Inbound) -> (Option<String>, String) {
    let text: String = inbound.text.chars().take(TEXT_MAX).collect();
    let before = lead(inbound);
    if !inbound.is_forwarded {
        return (before, text);
    }
    let lines: Vec<_> = before.into_iter().chain([text]).collect();
    (Some(lines.join("\n")), String::new())
}

/// The line before a message: what it answers, and in a chat of several who speaks.
fn lead(inbound: &Inbound) -> Option<String> {
    let quoted = quoted(inbound);
    if inbound.chat.kind == PeerKind::Direct {
        return quoted;
    }
    let name = inbound.sender.name.as_deref().map(short_name).unwrap_or_default();
    let (id, quoted) = (&inbound.sender.id, quoted.map(|it| it + " ").unwrap_or_default());
    Some(format!("[{quoted}{name} ({id})]"))
}

fn quoted(inbound: &Inbound) -> Option<String> {
    let quoted = inbound.quoted.as_deref().map(str::trim).filter(|quoted| !quoted.is_empty())?;
    let quote: String = quoted.chars().take(1000).collect();
    Some(format!("[Replying to: {}]", quote.replace('\n', " ")))
}

/// A name in one short line, without marks that could pass for the gateway's.
pub(super) fn short_name(name: &str) -> String {
    let plain = name.chars().filter(|c| !c.is_control() && !"[]()".contains(*c));
    plain.take(NAME_MAX).collect::<String>().trim().to_owned()
}

fn stopped(count: usize) -> String {
    match count {
        0 => "⚙️ Nothing was running.".to_owned(),
        1 => "⚙️ Stopped.".to_owned(),
        many => format!("⚙️ Stopped {many} runs."),
    }
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
fn failed(error: StoreError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbound(kind: PeerKind, text: &str) -> Inbound {
        Inbound {
            message_id: "1".into(),
            source: None,
            chat: Chat {
                kind,
                id: "c".into(),
                title: None,
                thread: Some("5".into()),
                former: None,
            },
            sender: Sender { id: "7".into(), name: Some("Eve](\n[System".into()) },
            text: text.into(),
            is_forwarded: false,
            attachments: vec![],
            files: vec![],
            is_mention: false,
            without_name: None,
            quoted: Some("a\nb".into()),
        }
    }

    #[test]
    fn in_a_group_the_model_reads_who_speaks_and_no_name_passes_for_more() {
        let read = |kind| words(&inbound(kind, "hi"));
        let before = "[[Replying to: a b] EveSystem (7)]".to_owned();
        assert_eq!(read(PeerKind::Group), (Some(before), "hi".to_owned()));
        let before = "[Replying to: a b]".to_owned();
        assert_eq!(read(PeerKind::Direct), (Some(before), "hi".to_owned()));
    }

    #[test]
    fn who_forwards_words_says_none_of_them() {
        let read = |kind, quoted: Option<&str>| {
            let quoted = quoted.map(str::to_owned);
            words(&Inbound { is_forwarded: true, quoted, ..inbound(kind, "hi /think high") })
        };
        let group = Some("[EveSystem (7)]\nhi /think high".to_owned());
        assert_eq!(read(PeerKind::Group, None), (group, String::new()));
        let direct = Some("hi /think high".to_owned());
        assert_eq!(read(PeerKind::Direct, None), (direct, String::new()));
        let both = Some("[Replying to: a]\nhi /think high".to_owned());
        assert_eq!(read(PeerKind::Direct, Some("a")), (both, String::new()));
    }

    #[test]
    fn no_two_messages_of_a_webhook_have_runs_of_the_same_id() {
        let named = |channel, kind, chat: &str, thread: Option<&str>, id: &str| {
            let mut inbound = inbound(kind, "hi");
            inbound.chat.id = chat.into();
            inbound.chat.thread = thread.map(Into::into);
            inbound.message_id = id.into();
            message_name(channel, &inbound)
        };
        let webhook = |kind, chat, thread, id| named(ChannelKind::Webhook, kind, chat, thread, id);
        assert_eq!(webhook(PeerKind::Direct, "ann", None, "1"), "ann:1", "as ever");
        let all = [
            webhook(PeerKind::Direct, "5", None, "1"),
            webhook(PeerKind::Group, "5", None, "1"),
            webhook(PeerKind::Channel, "5", None, "1"),
            webhook(PeerKind::Group, "5", Some("7"), "1"),
            webhook(PeerKind::Group, "5:thread:7", None, "1"),
            webhook(PeerKind::Group, "5", None, "thread:7:1"),
            webhook(PeerKind::Direct, "group", None, "5:1"),
            webhook(PeerKind::Direct, "group:5", None, "1"),
            webhook(PeerKind::Direct, "group%3A5", None, "1"),
        ];
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        let telegram = named(ChannelKind::Telegram, PeerKind::Group, "-5", Some("3"), "1");
        assert_eq!(telegram, "-5:1");
    }

    #[test]
    fn a_session_learns_where_its_messages_come_from() {
        let mut entry = SessionEntry::default();
        note_source(&mut entry, "webhook", "default", &inbound(PeerKind::Group, "hi"));
        let context =
            json!({"channel": "webhook", "to": "c", "accountId": "default", "threadId": "5"});
        assert_eq!(entry.delivery_context, Some(context));
        assert_eq!(entry.last_channel.as_deref(), Some("webhook"));
        assert_eq!(
            (&entry.extra["lastTo"], &entry.extra["lastThreadId"]),
            (&json!("c"), &json!("5"))
        );
        let mut elsewhere = inbound(PeerKind::Group, "hi");
        elsewhere.chat.thread = None;
        note_source(&mut entry, "webhook", "default", &elsewhere);
        assert!(!entry.extra.contains_key("lastThreadId"));
    }
}
