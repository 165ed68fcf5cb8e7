//! What is sent, as the outbox keeps it.

use serde::{Deserialize, Serialize};

use super::buttons::Button;

/// A file or an address that is sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MediaItem {
    /// Address, when the service fetches it by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub url: Option<String>,
    /// Name of a file in the gateway's own media folder.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file: Option<String>,
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mime_type: Option<String>,
    /// Whether it is to be heard like a voice message, where it can be.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_voice: bool,
}

/// A question with answers to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Poll {
    /// The question.
    pub question: String,
    /// The answers.
    pub options: Vec<String>,
    /// Most answers that one may choose.
    pub max_selections: u32,
    /// How long it is open.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_seconds: Option<u64>,
    /// Whether nobody sees who chose what.
    pub is_anonymous: bool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Body {
    /// What it says.
    pub text: String,
    /// What comes with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaItem>,
    /// A question instead of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<Poll>,
    /// What may be pressed under it, by block.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<Vec<Button>>,
    /// The message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The message whose place it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edits: Option<String>,
    /// Whether nobody is woken by it.
    #[serde(skip_serializing_if = "is_false")]
    pub is_silent: bool,
    /// How many messages a long text became, with this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_parts: Option<usize>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_false(value: &bool) -> bool {
    !value
}
