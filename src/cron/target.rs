//! Where an answer goes: a session, or a chat of a channel.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::Hearer;
use crate::protocol::methods::cron::{Delivery, DeliveryMode};
use crate::sessions::{AgentId, KeyRules, SessionKey, WEBCHAT};
use crate::support::json;

use super::alert;
use super::job::{Job, Origin};
use super::outlet::Bounds;
use super::service::Cron;

/// Where the agent spoke last.
pub(super) const LAST: &str = "last";
/// What is told when nobody ever spoke there, in the words of the original.
const NO_ROUTE: &str = "Channel is required (no configured channels detected). Set \
    delivery.channel explicitly or use a main session with a previous channel.";

/// Where an answer is wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Wanted {
    /// `last`, `webchat` or another channel.
    pub channel: String,
    /// A chat of it, or a session.
    pub to: Option<String>,
    /// A thread in it.
    pub thread_id: Option<Value>,
    /// Which account of the channel sends.
    pub account_id: Option<String>,
    /// Whether of all sessions it may only be the one that is told about it:
    /// somebody from outside has named the place.
    pub is_at_home: bool,
}

impl Wanted {
    /// Where a delivery wants it.
    pub fn of(delivery: &Delivery) -> Self {
        Self {
            channel: channel(delivery.channel.as_deref()),
            to: delivery.to.clone().filter(|to| !to.trim().is_empty()),
            thread_id: delivery.thread_id.clone(),
            account_id: delivery.account_id.clone(),
            is_at_home: false,
        }
    }

    /// The same, in no session but the one that is told about it.
    #[must_use]
    pub fn at_home(self) -> Self {
        Self { is_at_home: true, ..self }
    }

    /// The same by its parts.
    pub fn at(channel_name: Option<&str>, to: Option<&str>, account_id: Option<&str>) -> Self {
        Self {
            channel: channel(channel_name),
            to: to.map(str::to_owned).filter(|to| !to.trim().is_empty()),
            thread_id: None,
            account_id: account_id.map(str::to_owned),
            is_at_home: false,
        }
    }

    /// Who hears the answer, as it is written: where that is may change until it is there.
    pub fn hearer(&self) -> Hearer {
        if self.channel == WEBCHAT {
            return Hearer::Nobody;
        }
        let name = json!([self.channel, self.account_id, self.to, self.thread_id]);
        Hearer::Other(name.to_string().into())
    }

    /// Whether somebody named the channel.
    fn source(&self) -> &'static str {
        if self.channel == LAST { LAST } else { "explicit" }
    }

    /// As the log tells it.
    pub fn intended(&self) -> Value {
        json!({"channel": self.channel, "to": self.to, "source": self.source()})
    }

    /// As the log tells where that is, or why it is nowhere.
    pub fn resolved(&self, place: Result<&Place, &str>) -> Value {
        match place {
            Ok(place) => json!({"ok": true, "channel": place.channel(), "to": place.to(),
                "source": self.source()}),
            Err(error) => {
                json!({"ok": false, "to": null, "source": self.source(), "error": error})
            }
        }
    }
}

fn channel(name: Option<&str>) -> String {
    let name = name.map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| LAST.to_owned())
}

/// Where that is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Place {
    /// A session of the gateway.
    Session(SessionKey),
    /// A chat of a channel.
    Chat {
        /// The channel.
        channel: String,
        /// Which chat of it.
        to: Option<String>,
        /// A thread in it: text or number.
        thread_id: Option<Value>,
        /// Which account of the channel sends.
        account_id: Option<String>,
    },
}

impl Place {
    /// The channel.
    pub fn channel(&self) -> &str {
        match self {
            Self::Session(_) => WEBCHAT,
            Self::Chat { channel, .. } => channel,
        }
    }

    /// The session, or the chat.
    pub fn to(&self) -> Option<&str> {
        match self {
            Self::Session(key) => Some(key.as_str()),
            Self::Chat { to, .. } => to.as_deref(),
        }
    }
}

/// A chat of a channel that a job names, or was asked for in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedChat {
    /// The channel.
    pub channel: String,
    /// Which chat of it.
    pub to: String,
    /// Which account of the channel sends.
    pub account_id: Option<String>,
}

/// A channel, and which chat of it where that is known.
fn place_label(channel: &str, to: Option<&str>) -> String {
    to.map_or_else(|| channel.to_owned(), |to| format!("{channel}:{to}"))
}

/// Where a session was last written to from, with its thread and account, unless
/// somebody wants another chat there.
fn last_chat(wanted: &Wanted, channel: String, context: &Value) -> Place {
    let last = |name: &str| context[name].as_str().map(str::to_owned);
    let is_same = wanted.to.is_none() || wanted.to == last("to");
    let thread = Some(&context["threadId"]).filter(|it| is_same && !it.is_null()).cloned();
    Place::Chat {
        channel,
        to: wanted.to.clone().or_else(|| last("to")),
        thread_id: wanted.thread_id.clone().or(thread),
        account_id: wanted.account_id.clone().or_else(|| last("accountId")),
    }
}

/// The agent of a job with this `agentId`, by these rules.
pub(super) fn agent_named(agent_id: Option<&str>, rules: &KeyRules) -> AgentId {
    let own = agent_id.map(AgentId::normalize);
    own.unwrap_or_else(|| rules.default_agent.clone())
}

/// The session that a job is told about, by these rules.
pub(super) fn home_of(job: &Job, rules: &KeyRules) -> SessionKey {
    let agent = agent_named(job.agent_id.as_deref(), rules);
    match job.session_key.as_deref().filter(|key| !key.trim().is_empty()) {
        Some(written) => SessionKey::parse_for(written, &agent, rules),
        None => SessionKey::main(&agent, rules),
    }
}

impl Cron {
    /// The agent of a job.
    pub(super) fn agent_of(&self, job: &Job) -> AgentId {
        self.agent_named(job.agent_id.as_deref())
    }

    /// The agent of a job with this `agentId`: the default agent of one that has none.
    pub fn agent_named(&self, agent_id: Option<&str>) -> AgentId {
        agent_named(agent_id, &self.parts.keys.now())
    }

    /// The agents in whose sessions a job with these members acts.
    pub fn agents_of(
        &self,
        agent_id: Option<&str>,
        session_key: Option<&str>,
        target: &str,
    ) -> Vec<AgentId> {
        let keys = &self.parts.keys.now();
        let own = self.agent_named(agent_id);
        let named = session_key.into_iter().chain(target.strip_prefix("session:"));
        let of_key = |key: &str| SessionKey::parse_for(key, &own, keys).agent(keys);
        let mut agents: Vec<_> = named.map(of_key).collect();
        agents.push(own);
        agents
    }

    /// The session that a job is told about; the main session of its agent when
    /// it names none.
    pub(super) fn home_of(&self, job: &Job) -> SessionKey {
        home_of(job, &self.parts.keys.now())
    }

    /// By what a job is bound: the session that made it by its tool, that which it is told
    /// about, and where it was asked for. By nothing when a client made it.
    pub(super) fn bounds_of(&self, job: &Job, origin: Option<&Origin>) -> Option<Bounds> {
        let origin = origin?;
        let maker = SessionKey::from_canonical(origin.session_key.as_str());
        let sessions = vec![maker, self.home_of(job)];
        Some(Bounds { sessions, asked_in: origin.asked_in.clone() })
    }

    /// Whether what is bound so may be said in a session: in one of an agent for which it was
    /// made, or which the agent that made it may spawn.
    pub(super) fn may_say_in(&self, key: &SessionKey, bounds: &Bounds) -> bool {
        let (keys, settings) = (&self.parts.keys.now(), self.parts.settings.now());
        let agent = key.agent(keys);
        let mut own = bounds.sessions.iter().map(|session| session.agent(keys));
        let maker = bounds.sessions.first().map(|maker| maker.agent(keys));
        let allowed = maker.map(|maker| settings.agents.spawnable(maker.as_str()));
        let mut allowed = allowed.into_iter().flatten();
        own.any(|own| own == agent) || allowed.any(|id| id == "*" || id == agent.as_str())
    }

    /// The chats that a job names for its answers and for news of its failures, as far as
    /// it is known by now which they are.
    pub async fn named_chats(&self, job: &Job) -> Vec<NamedChat> {
        let settings = &self.parts.settings.now().cron;
        let (agent, home) = (self.agent_of(job), self.home_of(job));
        let mut named = Vec::new();
        for wanted in alert::places_of(job, settings).iter().filter(|it| it.to.is_some()) {
            let place = self.place(wanted, &agent, &home).await;
            if let Ok(Place::Chat { channel, to: Some(to), account_id, .. }) = place {
                named.push(NamedChat { channel, to, account_id });
            }
        }
        named
    }

    /// Where an answer goes that is told in a session, or where that was last
    /// spoken to.
    ///
    /// # Errors
    /// Why that is nowhere.
    pub(super) async fn place(
        &self,
        wanted: &Wanted,
        agent: &AgentId,
        home: &SessionKey,
    ) -> Result<Place, String> {
        let keys = &self.parts.keys.now();
        let named = |written: &str| {
            if wanted.is_at_home {
                return home.clone();
            }
            SessionKey::parse_for(written, agent, keys)
        };
        let (channel, key) = match wanted.channel.as_str() {
            LAST => {
                let entry = self.parts.sessions.entry(home).await;
                let entry = entry.map_err(|error| error.to_string())?.unwrap_or_default();
                let channel = entry.last_channel.ok_or_else(|| NO_ROUTE.to_owned())?;
                let context = entry.delivery_context.unwrap_or_default();
                if channel != WEBCHAT {
                    return Ok(last_chat(wanted, channel, &context));
                }
                (channel, wanted.to.as_deref().map_or_else(|| home.clone(), named))
            }
            WEBCHAT => {
                let key = wanted.to.as_deref().map_or_else(|| home.clone(), named);
                (WEBCHAT.to_owned(), key)
            }
            other => {
                return Ok(Place::Chat {
                    channel: other.to_owned(),
                    to: wanted.to.clone(),
                    thread_id: wanted.thread_id.clone(),
                    account_id: wanted.account_id.clone(),
                });
            }
        };
        let entry = self.parts.sessions.entry(&key).await.map_err(|error| error.to_string())?;
        match entry {
            Some(_) => Ok(Place::Session(key)),
            None => Err(format!("unknown session \"{key}\" on channel \"{channel}\"")),
        }
    }

    /// What a list tells of a job's delivery, as the original spells it.
    pub(super) async fn preview(&self, job: &Job) -> Value {
        let delivery = job.delivery.clone().unwrap_or_default();
        match delivery.mode() {
            DeliveryMode::None => json!({"label": "not requested", "detail": "not requested"}),
            DeliveryMode::Webhook => {
                let to = delivery.to.as_deref();
                let detail = if to.is_some() { "webhook" } else { "webhook target missing" };
                json!({"label": place_label("webhook", to), "detail": detail})
            }
            DeliveryMode::Announce => {
                let wanted = Wanted::of(&delivery);
                let place = self.place(&wanted, &self.agent_of(job), &self.home_of(job)).await;
                let label = match &place {
                    Ok(place) => place_label(place.channel(), place.to()),
                    Err(_) => place_label(&wanted.channel, wanted.to.as_deref()),
                };
                let session = job.session_key.as_deref().map(str::trim);
                let detail = match place {
                    Ok(_) if wanted.channel != LAST => "explicit".to_owned(),
                    Ok(_) => match session.filter(|key| !key.is_empty()) {
                        Some(key) => format!("resolved from last, session {key}"),
                        None => "resolved from last, main session".to_owned(),
                    },
                    Err(error) if wanted.channel != LAST => error,
                    Err(error) => format!("last -> no route, will fail-closed: {error}"),
                };
                json!({"label": format!("announce -> {label}"), "detail": detail})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_chat_keeps_its_thread_and_account_and_another_one_has_none() {
        let context = json!({"channel": "telegram", "to": "-100", "threadId": "5",
            "accountId": "work"});
        let chat = |to: Option<&str>| match last_chat(
            &Wanted::at(None, to, None),
            "telegram".into(),
            &context,
        ) {
            Place::Chat { to, thread_id, account_id, .. } => (to, thread_id, account_id),
            Place::Session(key) => panic!("{key} is no chat"),
        };
        let same = (Some("-100".to_owned()), Some(json!("5")), Some("work".to_owned()));
        assert_eq!(chat(None), same);
        assert_eq!(chat(Some("-100")), same);
        assert_eq!(chat(Some("7")), (Some("7".into()), None, Some("work".into())));
    }

    #[test]
    fn jobs_have_the_same_hearer_where_they_name_the_same_place() {
        let hearer = |channel, to| Wanted::at(Some(channel), Some(to), None).hearer();
        assert_eq!(hearer("webchat", "x"), Hearer::Nobody);
        let ann = hearer("webhook", "ann");
        // Whoever writes there is answered by itself.
        assert!(matches!(ann, Hearer::Other(_)), "{ann:?}");
        assert_eq!(ann, hearer("webhook", "ann"));
        assert_ne!(ann, hearer("webhook", "bob"));
        assert_ne!(ann, hearer("telegram", "ann"));
    }
}
