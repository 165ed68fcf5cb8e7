//! What a webhook brings.

use serde::Deserialize;
use serde_json::Value;

use crate::channels::inbound::{Chat, Inbound, Sender};
use crate::sessions::PeerKind;
use crate::support::reading;

/// Longest id; they stand in keys.
const ID_MAX: usize = 256;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    id: String,
    #[serde(default)]
    text: String,
    from: From,
    #[serde(default)]
    chat: Option<Place>,
    #[serde(default)]
    mentioned: bool,
    #[serde(default)]
    quoted_text: Option<String>,
    #[serde(default)]
    attachments: Vec<Value>,
}

#[derive(Deserialize)]
struct From {
    id: String,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    #[serde(default)]
    kind: Option<String>,
    id: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    thread_id: Option<String>,
}

/// The message in a body; an error names the member that is wrong.
pub fn read(body: &[u8]) -> Result<Inbound, String> {
    let json = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let written: Written = reading::read(&json).map_err(|(place, error)| {
        let place = place.strip_prefix('.').unwrap_or(".");
        format!("at {place}: {error}")
    })?;
    let Written { id, text, from, chat, mentioned, quoted_text, attachments } = written;
    let place = chat.unwrap_or_else(|| Place {
        kind: None,
        id: from.id.clone(),
        title: None,
        thread_id: None,
    });
    let kind = match place.kind.as_deref() {
        None | Some("direct" | "dm") => PeerKind::Direct,
        Some("group") => PeerKind::Group,
        Some("channel") => PeerKind::Channel,
        Some(_) => return Err("at chat.kind: must be direct, group or channel".into()),
    };
    if kind == PeerKind::Direct && place.id != from.id {
        // Else somebody could have the answer to somebody else's message.
        return Err("at chat.id: must be that of from in a direct chat".into());
    }
    let thread = place.thread_id.filter(|thread| !thread.is_empty());
    let named = [("id", &id), ("from.id", &from.id), ("chat.id", &place.id)];
    for (name, id) in named.into_iter().chain(thread.iter().map(|id| ("chat.threadId", id))) {
        if id.trim().is_empty() || id.len() > ID_MAX || id.chars().any(char::is_control) {
            return Err(format!("at {name}: must have 1 to {ID_MAX} characters"));
        }
    }
    if text.trim().is_empty() && attachments.is_empty() {
        return Err("at text: text or attachments are needed".into());
    }
    Ok(Inbound {
        message_id: id,
        source: None,
        chat: Chat { kind, id: place.id, title: place.title, thread, former: None },
        sender: Sender { id: from.id, name: from.name },
        text,
        is_forwarded: false,
        attachments,
        files: Vec::new(),
        is_mention: mentioned,
        without_name: None,
        quoted: quoted_text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn read_json(body: &Value) -> Result<Inbound, String> {
        read(body.to_string().as_bytes())
    }

    #[test]
    fn a_message_is_read_and_what_is_wrong_is_named() {
        let plain = read_json(&json!({"id": "1", "text": "hi", "from": {"id": "7"}})).unwrap();
        assert_eq!((plain.chat.kind, plain.chat.id.as_str()), (PeerKind::Direct, "7"));
        let group = json!({"id": "1", "text": "hi", "from": {"id": "7", "name": "Ann"},
            "chat": {"kind": "group", "id": "g", "title": "T", "threadId": "3"}, "mentioned": true,
            "unknown": 1});
        let group = read_json(&group).unwrap();
        assert!(group.is_mention && group.chat.thread.as_deref() == Some("3"));
        let in_thread = |thread: &str| {
            json!({"id": "1", "text": "x", "from": {"id": "7"},
                "chat": {"kind": "group", "id": "g", "threadId": thread}})
        };
        assert_eq!(read_json(&in_thread("")).unwrap().chat.thread, None);
        for (body, why) in [
            (json!({"text": "hi", "from": {"id": "7"}}), "at .: missing field `id`"),
            (json!({"id": 1, "from": {"id": "7"}}), "at id: "),
            (json!({"id": "1", "from": {"id": ""}, "text": "x"}), "at from.id: must have 1 to"),
            (json!({"id": "1", "from": {"id": "7"}}), "at text: text or attachments"),
            (
                json!({"id": "1", "from": {"id": "7"}, "text": "x", "chat": {"id": "8"}}),
                "at chat.id",
            ),
            (
                json!({"id": "1", "from": {"id": "7"}, "text": "x", "chat": {"kind": "x", "id": "7"}}),
                "at chat.kind",
            ),
            (in_thread("a\nb"), "at chat.threadId: must have 1 to"),
            (in_thread(&"x".repeat(257)), "at chat.threadId: must have 1 to"),
        ] {
            let error = read_json(&body).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
