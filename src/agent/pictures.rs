//! The context as the model of a run can take it: pictures where it sees them,
//! their names where it does not.

use crate::protocol::message::{AgentMessage, ContentBlock, UserContent, UserMessage};
use crate::providers::{PictureSize, picture_fits};
use crate::sessions::{Media, RECEIPT_MEMBER, StoredMedia};

/// What was put to what a user has said.
#[derive(Debug)]
pub struct Added {
    /// Bytes above the text.
    above: usize,
    /// Whether they are a block of their own.
    is_apart: bool,
    /// Pictures behind all of it.
    behind: usize,
}

impl Added {
    /// Has the message say again what it said.
    pub fn take_off(self, user: &mut UserMessage) {
        let text = match &mut user.content {
            UserContent::Text(text) => text,
            UserContent::Blocks(blocks) => {
                blocks.truncate(blocks.len().saturating_sub(self.behind));
                if self.is_apart {
                    if !blocks.is_empty() {
                        blocks.remove(0);
                    }
                    return;
                }
                let Some(ContentBlock::Text(block)) = blocks.first_mut() else { return };
                &mut block.text
            }
        };
        *text = text.get(self.above..).unwrap_or_default().to_owned();
    }
}

/// Fits the messages of a context to a model; those of the turn of this run, if one asks. Gives
/// back what was put to what users have said, with the places of their messages.
pub async fn fit(
    messages: &mut [AgentMessage],
    run_id: Option<&str>,
    sees: bool,
    media: &Media,
) -> Vec<(usize, Added)> {
    let start = turn_start(messages, run_id);
    let mut added = Vec::new();
    for (place, message) in messages.iter_mut().enumerate() {
        let AgentMessage::User(user) = message else { continue };
        let files = StoredMedia::of(&user.extra);
        let (mut lines, mut shown) = (String::new(), Vec::new());
        if !sees {
            name_pictures(&files, &mut lines);
        } else if place >= start && matches!(user.content, UserContent::Blocks(_)) {
            // Large pictures are looked at once, in the turn in which they come.
            shown = large_pictures(&files, media, &mut lines).await;
        }
        if let Some(receipt) = user.extra.get(RECEIPT_MEMBER).and_then(|text| text.as_str()) {
            lines.extend([receipt, "\n\n"]);
        }
        if lines.is_empty() && shown.is_empty() {
            continue;
        }
        let (above, behind) = (lines.len(), shown.len());
        if let UserContent::Blocks(blocks) = &mut user.content {
            blocks.extend(shown);
        }
        let is_apart = !lines.is_empty() && put_above(user, &lines);
        added.push((place, Added { above, is_apart, behind }));
    }
    added
}

/// Where the turn begins that goes on: with the message of its run, or what was said last,
/// and with what no model has begun to answer before it. What one could not answer with its
/// pictures would fail again with them.
fn turn_start(messages: &[AgentMessage], run_id: Option<&str>) -> usize {
    let is_user = |message: &AgentMessage| matches!(message, AgentMessage::User(_));
    let is_own = |message: &AgentMessage| {
        matches!(message, AgentMessage::User(it) if run_id.is_some()
            && it.extra.get("idempotencyKey").and_then(|key| key.as_str()) == run_id)
    };
    let is_answer = |message: &AgentMessage| {
        let AgentMessage::Assistant(answer) = message else { return false };
        !answer.is_from_gateway()
    };
    let own = messages.iter().rposition(is_own).or_else(|| messages.iter().rposition(is_user));
    let mut before = messages.iter().take(own.unwrap_or_default());
    before.rposition(is_answer).map_or(0, |answer| answer + 1)
}

/// Pictures that the message holds are named, as others are already.
fn name_pictures(files: &[StoredMedia], lines: &mut String) {
    for file in files.iter().filter(|file| file.is_picture() && file.inline) {
        lines.extend(["[media attached: ", &file.path, " (", &file.mime_type, ")]\n"]);
    }
}

/// Pictures that the message does not hold; those that no provider takes are named.
async fn large_pictures(
    files: &[StoredMedia],
    media: &Media,
    lines: &mut String,
) -> Vec<ContentBlock> {
    let mut shown = Vec::new();
    for file in files.iter().filter(|file| file.is_picture_apart()) {
        // Its file may be gone.
        let Some(data) = media.base64(file).await else { continue };
        if picture_fits(PictureSize::of_base64(&data)) {
            shown.push(ContentBlock::image(data, &file.mime_type));
        } else {
            lines.extend(["[image omitted, too large to be shown: ", &file.path, "]\n"]);
        }
    }
    shown
}

/// Puts this before what a user has said.
pub fn put_before(user: &mut UserMessage, text: &str) -> Added {
    Added { above: text.len(), is_apart: put_above(user, text), behind: 0 }
}

/// Whether they are a block of their own now.
fn put_above(user: &mut UserMessage, lines: &str) -> bool {
    let text = match &mut user.content {
        UserContent::Text(text) => text,
        UserContent::Blocks(blocks) => {
            let Some(ContentBlock::Text(block)) = blocks.first_mut() else {
                blocks.insert(0, ContentBlock::text(lines));
                return true;
            };
            &mut block.text
        }
    };
    text.insert_str(0, lines);
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{AssistantMessage, StopReason};
    use crate::providers::testing::png;
    use crate::support::json;

    fn user(text: &str, inline: bool) -> AgentMessage {
        let mut user = UserMessage::text(text, 0);
        if let UserContent::Blocks(blocks) = &mut user.content
            && inline
        {
            blocks.push(ContentBlock::image("AAAA", "image/png"));
        }
        let file =
            json!({"path": "/m/a.png", "mimeType": "image/png", "bytes": 3, "inline": inline});
        user.extra.insert("inboundMedia".into(), json!([file]));
        AgentMessage::User(user)
    }

    fn blocks(message: &AgentMessage) -> &[ContentBlock] {
        let AgentMessage::User(UserMessage { content: UserContent::Blocks(blocks), .. }) = message
        else {
            panic!("a message of blocks")
        };
        blocks
    }

    #[tokio::test]
    async fn a_model_that_sees_nothing_is_told_the_names() {
        let home = tempfile::tempdir().unwrap();
        let mut messages = [user("look", true)];
        fit(&mut messages, None, false, &Media::new(home.path())).await;
        assert_eq!(messages[0].text(), "[media attached: /m/a.png (image/png)]\nlook");
    }

    fn answer(stop_reason: StopReason) -> AgentMessage {
        let message = AssistantMessage::from_gateway("seen", 0);
        let content = match stop_reason {
            StopReason::ToolUse => vec![ContentBlock::tool_call("c", "read", json!({}))],
            _ => vec![ContentBlock::text("seen")],
        };
        let provider = "mock".to_owned();
        AgentMessage::Assistant(AssistantMessage { content, provider, stop_reason, ..message })
    }

    #[tokio::test]
    async fn the_large_pictures_of_a_turn_are_shown() {
        let home = tempfile::tempdir().unwrap();
        let inbound = home.path().join("media/inbound");
        std::fs::create_dir_all(&inbound).unwrap();
        std::fs::write(inbound.join("a.png"), "Man").unwrap();
        let mut own = user("own", false);
        let AgentMessage::User(told) = &mut own else { panic!("a user") };
        told.extra.insert("idempotencyKey".into(), json!("run-1"));
        let turn = [
            user("answered", false),
            answer(StopReason::Stop),
            user("failed", false),
            answer(StopReason::Error),
            user("not begun", false),
            own,
            answer(StopReason::ToolUse),
            user("taken in", false),
        ];
        let shown = async |messages: &[AgentMessage], run_id: Option<&str>| {
            let mut messages = messages.to_vec();
            fit(&mut messages, run_id, true, &Media::new(home.path())).await;
            let users = messages.iter().filter(|it| matches!(it, AgentMessage::User(_)));
            users.map(|user| blocks(user).len() == 2).collect::<Vec<_>>()
        };
        let expected = [false, false, true, true, true];
        assert_eq!(shown(&turn[..], Some("run-1")).await, expected);
        // The run has answered, and goes on with what was said meanwhile.
        let mut more = turn.to_vec();
        more.insert(7, answer(StopReason::Stop));
        assert_eq!(shown(&more[..], Some("run-1")).await, expected);
        // All is answered: what was said last can still be asked about.
        more.truncate(2);
        assert_eq!(shown(&more[..], None).await, [true]);
    }

    #[tokio::test]
    async fn a_picture_that_no_provider_takes_is_named_instead() {
        let home = tempfile::tempdir().unwrap();
        let inbound = home.path().join("media/inbound");
        std::fs::create_dir_all(&inbound).unwrap();
        let shown = async || {
            let mut message = user("look", false);
            let AgentMessage::User(told) = &mut message else { panic!("a user") };
            told.extra["inboundMedia"][0]["bytes"] = json!(24);
            let mut messages = [message];
            fit(&mut messages, None, true, &Media::new(home.path())).await;
            messages
        };
        std::fs::write(inbound.join("a.png"), png(8001, 1)).unwrap();
        let messages = shown().await;
        assert_eq!(blocks(&messages[0]).len(), 1);
        let line = "[image omitted, too large to be shown: /m/a.png]\nlook";
        assert_eq!(messages[0].text(), line);
        std::fs::write(inbound.join("a.png"), png(8000, 1)).unwrap();
        assert_eq!(blocks(&shown().await[0]).len(), 2);
    }

    #[tokio::test]
    async fn what_is_put_to_a_message_is_taken_off_again() {
        let home = tempfile::tempdir().unwrap();
        let inbound = home.path().join("media/inbound");
        std::fs::create_dir_all(&inbound).unwrap();
        std::fs::write(inbound.join("a.png"), "Man").unwrap();
        let picture = ContentBlock::image("AAAA", "image/png");
        let contents = [
            UserContent::Text("look".into()),
            UserContent::Blocks(vec![ContentBlock::text("look"), picture.clone()]),
            UserContent::Blocks(vec![ContentBlock::text("")]),
            UserContent::Blocks(vec![picture]),
            UserContent::Blocks(Vec::new()),
        ];
        for (content, receipt) in contents.iter().flat_map(|it| [(it, None), (it, Some("é"))]) {
            for (inline, sees) in [(true, false), (true, true), (false, true)] {
                let mut message = user("", inline);
                let AgentMessage::User(told) = &mut message else { panic!("a user") };
                told.content = content.clone();
                told.extra.extend(receipt.map(|text| (RECEIPT_MEMBER.into(), text.into())));
                let mut messages = [message.clone()];
                let added = fit(&mut messages, None, sees, &Media::new(home.path())).await;
                assert_eq!(added.is_empty(), messages[0] == message, "{messages:?}");
                let [AgentMessage::User(fitted)] = &mut messages else { panic!("a user") };
                for (_, added) in added {
                    added.take_off(fitted);
                }
                assert_eq!(messages[0], message);
            }
        }
    }

    #[tokio::test]
    async fn a_receipt_is_for_the_model() {
        let home = tempfile::tempdir().unwrap();
        let mut message = UserMessage::text("do it", 0);
        message.extra.insert(RECEIPT_MEMBER.into(), json!("from the scheduler"));
        let mut messages = [AgentMessage::User(message)];
        fit(&mut messages, None, true, &Media::new(home.path())).await;
        assert_eq!(messages[0].text(), "from the scheduler\n\ndo it");
    }
}
