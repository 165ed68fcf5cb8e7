//! One account of a channel.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::access::{AccessSettings, DmPolicy, GroupPolicy, GroupSettings, PeerId};
use super::paths::{default_path, inbound_path};
use crate::config::ConfigError;
use crate::config::schema::Node;
use crate::config::secrets::{SecretInput, SecretRef};
use crate::support::Secret;

/// Id of the only account of a channel.
pub(super) const DEFAULT_ACCOUNT: &str = "default";
/// Most accounts of one channel; each is a connection.
const ACCOUNTS_MAX: usize = 32;
/// Longest id of an account; it stands in session keys.
const ACCOUNT_ID_MAX: usize = 64;
/// Largest file that is taken or sent by a webhook, in MiB, unless the file says otherwise.
const WEBHOOK_MEDIA_MB: f64 = 5.0;
/// The same on Telegram: the Bot API gives no larger ones, and no message has them.
const TELEGRAM_MEDIA_MB: f64 = 20.0;
/// Bound of that: what the Bot API takes.
const MEDIA_MB_MAX: u32 = 50;
/// Longest part of a reply on Telegram, in UTF-16 units; the API takes 4096,
/// and a part may need marks at both ends.
const TELEGRAM_CHUNK: usize = 4000;
/// The bound of the API.
const TELEGRAM_CHUNK_MAX: usize = 4096;
/// Longest part of a reply to a webhook, in characters: nothing bounds them.
const WEBHOOK_CHUNK: usize = 50_000;
/// Bound of that.
const WEBHOOK_CHUNK_MAX: usize = 1_000_000;
/// Where the Bot API is.
const TELEGRAM_API: &str = "https://api.telegram.org";
/// Longest secret that it says to be known.
const CALL_SECRET_MAX: usize = 256;
/// Shortest secret that signs; a shorter one can be guessed.
const SECRET_MIN: usize = 16;
/// How old a signed request may be, in seconds, unless the file says otherwise.
const REPLAY_SECONDS: u64 = 300;
/// Bound of that.
const REPLAY_SECONDS_MAX: u64 = 3600;

/// A kind of channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChannelKind {
    /// Telegram's Bot API.
    Telegram,
    /// Signed HTTP.
    Webhook,
}

impl ChannelKind {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 2] = [Self::Telegram, Self::Webhook];

    /// Its id in the config file, in keys and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Telegram => "telegram",
            Self::Webhook => "webhook",
        }
    }

    /// The channel with this id.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text))
    }
}

/// How long replies are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChunkMode {
    /// As late as possible.
    #[default]
    Length,
    /// After each paragraph.
    Newline,
}

/// Which parts of a reply quote the message that they answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplyToMode {
    /// None.
    #[default]
    Off,
    /// The first. So does `batched` here, by which the original means only an answer to several
    /// messages at once.
    #[serde(alias = "batched")]
    First,
    /// All.
    All,
}

/// What is set for Telegram alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelegramSettings {
    /// The bot's token.
    pub token: SecretInput,
    /// Where the Bot API is, without a slash at its end.
    pub api_root: String,
    /// Whether a reply is shown while it is written.
    pub streams: bool,
    /// Whether pages that a message names are shown under it.
    pub has_link_previews: bool,
    /// The reaction that tells that a message is being answered, where that is not as everywhere.
    pub ack_reaction: Option<String>,
    /// Where Telegram reaches us; updates are asked for when absent.
    pub webhook_url: Option<String>,
    /// What it says to be known.
    pub webhook_secret: Option<SecretInput>,
    /// The path that it comes to.
    pub webhook_path: String,
    /// How many messages of a group before one to the agent it is told, where that is not as
    /// everywhere.
    pub history_limit: Option<usize>,
}

/// What is set for webhooks alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// What signs, both ways.
    pub secret: SecretInput,
    /// Where messages are sent; without it nothing can be.
    pub url: Option<String>,
    /// The path that messages come to.
    pub path: String,
    /// How old a signed request may be, in seconds.
    pub replay_seconds: u64,
}

/// How an account is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelWay {
    /// By the Bot API.
    Telegram(TelegramSettings),
    /// By HTTP.
    Webhook(WebhookSettings),
}

/// One account of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelAccount {
    /// Its channel.
    pub kind: ChannelKind,
    /// Its id in the config file.
    pub id: String,
    /// Whether it is meant where no account is named.
    pub is_default: bool,
    /// Whether it stands among `accounts`, and not beside them.
    pub is_listed: bool,
    /// Name for people.
    pub name: Option<String>,
    /// Whether it is used.
    pub enabled: bool,
    /// Who may write.
    pub access: AccessSettings,
    /// Longest part of a reply.
    pub chunk_limit: usize,
    /// How long replies are cut.
    pub chunk_mode: ChunkMode,
    /// Which parts quote what they answer.
    pub reply_to: ReplyToMode,
    /// Largest file, in MiB.
    pub media_max_mb: u64,
    /// What stands before answers, where that is not as everywhere.
    pub response_prefix: Option<String>,
    /// How it is reached, or why it cannot be.
    pub way: Result<ChannelWay, String>,
}

impl ChannelAccount {
    /// Every reference to a secret.
    pub fn references(&self) -> Vec<&SecretRef> {
        let inputs = match &self.way {
            Err(_) => vec![],
            Ok(ChannelWay::Webhook(webhook)) => vec![&webhook.secret],
            Ok(ChannelWay::Telegram(telegram)) => {
                telegram.webhook_secret.iter().chain([&telegram.token]).collect()
            }
        };
        inputs.into_iter().filter_map(SecretInput::reference).collect()
    }

    /// Where it is in the config file.
    pub(super) fn place(&self) -> String {
        let channel = format!("channels.{}", self.kind.as_str());
        if self.is_listed { format!("{channel}.accounts.{}", self.id) } else { channel }
    }

    /// The path of our own HTTP side that its messages come to.
    pub fn inbound_path(&self) -> Option<&str> {
        match self.way.as_ref().ok()? {
            ChannelWay::Webhook(webhook) => Some(&webhook.path),
            ChannelWay::Telegram(telegram) => {
                telegram.webhook_url.as_ref().map(|_| telegram.webhook_path.as_str())
            }
        }
    }
}

/// An account as it stands in the file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    enabled: Option<bool>,
    name: Option<String>,
    dm_policy: DmPolicy,
    allow_from: Vec<PeerId>,
    group_policy: GroupPolicy,
    group_allow_from: Option<Vec<PeerId>>,
    groups: BTreeMap<String, GroupSettings>,
    send_to: Vec<PeerId>,
    default_to: Option<PeerId>,
    text_chunk_limit: Option<usize>,
    chunk_mode: ChunkMode,
    reply_to_mode: ReplyToMode,
    media_max_mb: Option<f64>,
    response_prefix: Option<String>,
    bot_token: Option<SecretInput>,
    api_root: Option<String>,
    streaming: Option<Streaming>,
    link_preview: Option<bool>,
    ack_reaction: Option<String>,
    webhook_url: Option<String>,
    webhook_secret: Option<SecretInput>,
    webhook_path: Option<String>,
    history_limit: Option<usize>,
    secret: Option<SecretInput>,
    url: Option<String>,
    path: Option<String>,
    replay_window_seconds: Option<u64>,
}

/// OpenClaw writes it as a word, and earlier as yes or no.
#[derive(Deserialize)]
#[serde(untagged)]
enum Streaming {
    Switch(bool),
    Word(String),
    Modes { mode: Option<String> },
}

impl Streaming {
    fn is_on(&self) -> bool {
        match self {
            Self::Switch(on) => *on,
            Self::Word(word) | Self::Modes { mode: Some(word) } => word != "off",
            Self::Modes { mode: None } => true,
        }
    }
}

/// Members that belong to one account and are not passed on to others.
const OWN: [&str; 10] = [
    "accounts",
    "defaultAccount",
    "botToken",
    "tokenFile",
    "webhookUrl",
    "webhookSecret",
    "webhookPath",
    "secret",
    "url",
    "path",
];

/// The accounts of one channel. What stands beside `accounts` holds for all.
pub(super) fn read(node: &Node<'_>, kind: ChannelKind) -> Result<Vec<ChannelAccount>, ConfigError> {
    let Some(Value::Object(base)) = node.value() else {
        // Wrong in its form, or not there.
        return node.members().map(|_| Vec::new());
    };
    let named = node.member("accounts")?.members()?;
    // What is wrong for all of them is told where it stands.
    let shared: Written = node.deserialize()?;
    if named.len() > ACCOUNTS_MAX {
        return Err(node.wrong(&format!("accounts must have at most {ACCOUNTS_MAX} members")));
    }
    let default_id = node.member("defaultAccount")?.text()?;
    let default_id = default_id.as_deref().map_or(DEFAULT_ACCOUNT, str::trim);
    let credential = if kind == ChannelKind::Telegram { "botToken" } else { "secret" };
    let mut accounts = Vec::new();
    let has_default = named.iter().any(|(id, _)| id == DEFAULT_ACCOUNT);
    if named.is_empty() || (!has_default && base.contains_key(credential)) {
        accounts.push(account(node, kind, DEFAULT_ACCOUNT, shared)?);
    }
    for (id, own) in named {
        if id.trim().is_empty() || id.len() > ACCOUNT_ID_MAX || id.contains([':', '|']) {
            let rule = "must have a name of 1 to 64 characters without : and |";
            return Err(own.wrong(rule));
        }
        let Some(Value::Object(members)) = own.value() else {
            return Err(own.wrong("must be an object"));
        };
        let is_default = id == DEFAULT_ACCOUNT;
        let shared = base.iter().filter(|(name, _)| is_default || !OWN.contains(&name.as_str()));
        let mut whole: Map<String, Value> =
            shared.map(|(name, value)| (name.clone(), value.clone())).collect();
        whole.shift_remove("accounts");
        whole.extend(members.iter().map(|(name, value)| (name.clone(), value.clone())));
        let whole = Value::Object(whole);
        let merged = own.with(&whole).deserialize()?;
        let listed = account(&own, kind, &id, merged)?;
        accounts.push(ChannelAccount { is_listed: true, ..listed });
    }
    for account in &mut accounts {
        account.is_default = account.id == default_id;
    }
    Ok(accounts)
}

fn account(
    node: &Node<'_>,
    kind: ChannelKind,
    id: &str,
    written: Written,
) -> Result<ChannelAccount, ConfigError> {
    let access = AccessSettings {
        dm_policy: written.dm_policy,
        allow_from: written.allow_from.clone(),
        group_policy: written.group_policy,
        group_allow_from: written.group_allow_from.clone(),
        groups: written.groups.clone(),
        send_to: written.send_to.clone(),
        default_to: written.default_to.clone(),
    };
    if access.dm_policy == DmPolicy::Open && !access.allow_from.iter().any(PeerId::is_everybody) {
        let rule = "must hold \"*\" when dmPolicy is \"open\"";
        return Err(node.member("allowFrom")?.wrong(rule));
    }
    let (usual, most, usual_media) = match kind {
        ChannelKind::Telegram => (TELEGRAM_CHUNK, TELEGRAM_CHUNK_MAX, TELEGRAM_MEDIA_MB),
        ChannelKind::Webhook => (WEBHOOK_CHUNK, WEBHOOK_CHUNK_MAX, WEBHOOK_MEDIA_MB),
    };
    let chunk_limit = written.text_chunk_limit.unwrap_or(usual);
    if chunk_limit == 0 {
        return Err(node.member("textChunkLimit")?.wrong("must be a positive integer"));
    }
    let chunk_limit = chunk_limit.clamp(64, most);
    let media_max = written.media_max_mb.unwrap_or(usual_media);
    if media_max < 0.0 {
        return Err(node.member("mediaMaxMb")?.wrong("must be a positive number"));
    }
    // A part of one is as good as all of it.
    let media_max_mb = (1..MEDIA_MB_MAX).find(|whole| f64::from(*whole) >= media_max);
    Ok(ChannelAccount {
        kind,
        id: id.to_owned(),
        is_default: false,
        is_listed: false,
        name: written.name.clone(),
        enabled: written.enabled.unwrap_or(true),
        access,
        chunk_limit,
        chunk_mode: written.chunk_mode,
        reply_to: written.reply_to_mode,
        media_max_mb: media_max_mb.unwrap_or(MEDIA_MB_MAX).into(),
        response_prefix: written.response_prefix.clone(),
        way: match kind {
            ChannelKind::Telegram => telegram(written, id),
            ChannelKind::Webhook => webhook(written, id),
        },
    })
}

fn telegram(written: Written, id: &str) -> Result<ChannelWay, String> {
    let token = written.bot_token.ok_or("botToken is missing")?;
    if matches!(&token, SecretInput::Text(text) if text.is_empty()) {
        return Err("botToken is empty".into());
    }
    let api_root = written.api_root.unwrap_or_else(|| TELEGRAM_API.into());
    let api_root = address(&api_root, "apiRoot")?;
    let mut path = written.webhook_path.unwrap_or_else(|| default_path("telegram-webhook", id));
    if let Some(url) = &written.webhook_url {
        let url = address(url, "webhookUrl")?;
        // A server of one's own may call by http.
        if api_root == TELEGRAM_API && !url.to_ascii_lowercase().starts_with("https:") {
            return Err("webhookUrl must be an https address".into());
        }
        let secret = written.webhook_secret.as_ref().ok_or("webhookUrl needs webhookSecret")?;
        if let SecretInput::Text(secret) = secret {
            check_call_secret(secret)?;
        }
        path = inbound_path(&path, "webhookPath")?;
    }
    Ok(ChannelWay::Telegram(TelegramSettings {
        token,
        api_root,
        streams: written.streaming.is_none_or(|streaming| streaming.is_on()),
        has_link_previews: written.link_preview.unwrap_or(true),
        ack_reaction: written.ack_reaction,
        webhook_url: written.webhook_url,
        webhook_secret: written.webhook_secret,
        webhook_path: path,
        history_limit: written.history_limit,
    }))
}

fn webhook(written: Written, id: &str) -> Result<ChannelWay, String> {
    let secret = written.secret.ok_or("secret is missing")?;
    if let SecretInput::Text(text) = &secret
        && text.expose().len() < SECRET_MIN
    {
        return Err(format!("secret must have at least {SECRET_MIN} characters"));
    }
    let url = written.url.map(|url| address(&url, "url")).transpose()?;
    let path = written.path.unwrap_or_else(|| default_path("webhooks", id));
    let replay_seconds = written.replay_window_seconds.unwrap_or(REPLAY_SECONDS);
    Ok(ChannelWay::Webhook(WebhookSettings {
        secret,
        url,
        path: inbound_path(&path, "path")?,
        replay_seconds: replay_seconds.clamp(1, REPLAY_SECONDS_MAX),
    }))
}

/// An address of ours or of others, without a slash at its end.
fn address(text: &str, key: &str) -> Result<String, String> {
    let parsed = reqwest::Url::parse(text.trim());
    let fits = parsed.is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.has_host()
    });
    if fits {
        Ok(text.trim().trim_end_matches('/').to_owned())
    } else {
        Err(format!("{key} must be an http or https address"))
    }
}

/// Whether Telegram takes this to say when it calls us.
///
/// # Errors
/// What it has to be.
pub fn check_call_secret(secret: &Secret) -> Result<(), String> {
    let text = secret.expose();
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"_-".contains(&c);
    if (1..=CALL_SECRET_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
        Ok(())
    } else {
        Err(format!("webhookSecret must have 1 to {CALL_SECRET_MAX} of A-Z, a-z, 0-9, _ and -"))
    }
}
