//! The context as the model of a run can take it: pictures where it sees them,
//! their names where it does not.

use crate::protocol::message::{AgentMessage, ContentBlock, UserContent, UserMessage};
use crate::providers::{PictureSize, picture_fits};
use crate::sessions::{Media, RECEIPT_MEMBER, StoredMedia};

/// Fits the messages of a context to a model.
pub async fn fit(messages: &mut [AgentMessage], sees: bool, media: &Media) {
    let users = messages.iter_mut().filter_map(|message| match message {
        AgentMessage::User(user) => Some(user),
        _ => None,
    });
    // Large pictures are looked at once, when they come.
    let mut is_last = true;
    for user in users.rev() {
        if let Some(receipt) = user.extra.get(RECEIPT_MEMBER).and_then(|text| text.as_str()) {
            let line = format!("{receipt}\n\n");
            put_above(user, &line);
        }
        let files = StoredMedia::of(&user.extra);
        if !sees {
            name_pictures(user, &files);
        } else if is_last {
            show_pictures(user, &files, media).await;
        }
        is_last = false;
    }
}

/// Pictures that the message holds are named, as others are already.
fn name_pictures(user: &mut UserMessage, files: &[StoredMedia]) {
    let mut lines = String::new();
    for file in files.iter().filter(|file| file.is_picture() && file.inline) {
        for part in ["[media attached: ", &file.path, " (", &file.mime_type, ")]\n"] {
            lines.push_str(part);
        }
    }
    if !lines.is_empty() {
        put_above(user, &lines);
    }
}

/// Pictures that the message does not hold are added, unless no provider takes them.
async fn show_pictures(user: &mut UserMessage, files: &[StoredMedia], media: &Media) {
    let UserContent::Blocks(blocks) = &mut user.content else { return };
    let mut lines = String::new();
    for file in files.iter().filter(|file| file.is_picture_apart()) {
        // Its file may be gone.
        let Some(data) = media.base64(file).await else { continue };
        if picture_fits(PictureSize::of_base64(&data)) {
            blocks.push(ContentBlock::image(data, &file.mime_type));
        } else {
            lines.extend(["[image omitted, too large to be shown: ", &file.path, "]\n"]);
        }
    }
    if !lines.is_empty() {
        put_above(user, &lines);
    }
}

fn put_above(user: &mut UserMessage, lines: &str) {
    let text = match &mut user.content {
        UserContent::Text(text) => text,
        UserContent::Blocks(blocks) => {
            let Some(ContentBlock::Text(block)) = blocks.first_mut() else {
                blocks.insert(0, ContentBlock::text(lines));
                return;
            };
            &mut block.text
        }
    };
    text.insert_str(0, lines);
}

#[cfg(test)]
mod tests {
    use super::*;
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
        fit(&mut messages, false, &Media::new(home.path())).await;
        assert_eq!(messages[0].text(), "[media attached: /m/a.png (image/png)]\nlook");
    }

    #[tokio::test]
    async fn the_last_large_picture_is_shown() {
        let home = tempfile::tempdir().unwrap();
        let inbound = home.path().join("media/inbound");
        std::fs::create_dir_all(&inbound).unwrap();
        std::fs::write(inbound.join("a.png"), "Man").unwrap();
        let mut messages = [user("first", false), user("second", false)];
        fit(&mut messages, true, &Media::new(home.path())).await;
        assert_eq!(blocks(&messages[0]).len(), 1);
        assert_eq!(blocks(&messages[1])[1], ContentBlock::image("TWFu", "image/png"));
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
            fit(&mut messages, true, &Media::new(home.path())).await;
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
    async fn a_receipt_is_for_the_model() {
        let home = tempfile::tempdir().unwrap();
        let mut message = UserMessage::text("do it", 0);
        message.extra.insert(RECEIPT_MEMBER.into(), json!("from the scheduler"));
        let mut messages = [AgentMessage::User(message)];
        fit(&mut messages, true, &Media::new(home.path())).await;
        assert_eq!(messages[0].text(), "from the scheduler\n\ndo it");
    }
}
