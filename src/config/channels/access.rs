//! Who may write to an agent by a channel, and whom it may write to.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// The platform's own id of a person or a group, which never changes. Names
/// are none: they can be given to somebody else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(String);

impl PeerId {
    /// The id in a text: `telegram:123` and `tg:123` are `123`.
    pub fn new(text: &str) -> Self {
        let text = text.trim();
        let bare = ["telegram:", "tg:", "webhook:"].iter().find_map(|prefix| {
            let (head, rest) = text.split_at_checked(prefix.len())?;
            head.eq_ignore_ascii_case(prefix).then_some(rest)
        });
        Self(bare.unwrap_or(text).trim().to_owned())
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for everybody.
    pub fn is_everybody(&self) -> bool {
        self.0 == "*"
    }

    /// Whether it is this one; never by a part, and never when there is none.
    pub fn is(&self, id: &str) -> bool {
        !id.is_empty() && self.0 == id
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Number(Number),
}

impl<'de> Deserialize<'de> for PeerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => Self::new(&text),
            Scalar::Number(number) => Self(number.to_string()),
        })
    }
}

/// What becomes of direct messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DmPolicy {
    /// People who are unknown get a code, which an operator may approve.
    #[default]
    Pairing,
    /// Only those in `allowFrom` are answered.
    Allowlist,
    /// Everybody is answered; `allowFrom` has to hold `"*"`.
    Open,
    /// Nobody is answered.
    Disabled,
}

impl DmPolicy {
    /// The word in the config file and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pairing => "pairing",
            Self::Allowlist => "allowlist",
            Self::Open => "open",
            Self::Disabled => "disabled",
        }
    }
}

/// What becomes of messages in groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupPolicy {
    /// Only those of `groupAllowFrom` (else `allowFrom`) are answered.
    #[default]
    Allowlist,
    /// Everybody is answered.
    Open,
    /// Nobody is answered.
    Disabled,
}

impl GroupPolicy {
    /// The word in the config file and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowlist => "allowlist",
            Self::Open => "open",
            Self::Disabled => "disabled",
        }
    }
}

/// `groups.<id>`; `*` holds for those that are not named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupSettings {
    /// Whether anything there is answered.
    pub enabled: Option<bool>,
    /// Whether only messages to the agent are answered.
    pub require_mention: Option<bool>,
    /// Who is answered there, when not the same as elsewhere.
    pub allow_from: Option<Vec<PeerId>>,
    /// Rules of this group alone.
    pub group_policy: Option<GroupPolicy>,
    /// Added to the prompt there.
    pub system_prompt: Option<String>,
}

/// Who may write, and whom the agent may write to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessSettings {
    /// Direct messages.
    pub dm_policy: DmPolicy,
    /// Who is known.
    pub allow_from: Vec<PeerId>,
    /// Groups.
    pub group_policy: GroupPolicy,
    /// Who is known in groups; `allow_from` when absent.
    pub group_allow_from: Option<Vec<PeerId>>,
    /// What is set for single groups. When there are any, others are left
    /// alone, unless `*` is among them.
    pub groups: BTreeMap<String, GroupSettings>,
    /// Where an agent may write to by itself, beside the people and groups that
    /// are named here.
    pub send_to: Vec<PeerId>,
    /// Where messages go that name nobody.
    pub default_to: Option<PeerId>,
}

impl AccessSettings {
    /// What holds in a group: its own settings before those of all.
    pub fn group(&self, id: &str) -> Option<GroupSettings> {
        let everywhere = self.groups.get("*");
        match (self.groups.get(id), everywhere) {
            (None, None) if self.groups.is_empty() => Some(GroupSettings::default()),
            (None, None) => None,
            (Some(own), None) => Some(own.clone()),
            (None, Some(all)) => Some(all.clone()),
            (Some(own), Some(all)) => Some(GroupSettings {
                enabled: own.enabled.or(all.enabled),
                require_mention: own.require_mention.or(all.require_mention),
                allow_from: own.allow_from.clone().or_else(|| all.allow_from.clone()),
                group_policy: own.group_policy.or(all.group_policy),
                system_prompt: own.system_prompt.clone().or_else(|| all.system_prompt.clone()),
            }),
        }
    }
}
