//! What an update of the Bot API says.
//! Source: core.telegram.org/bots/api, Update, Message, `MessageEntity`, `CallbackQuery`.

use serde_json::Value;

use super::content::{self, name};
use crate::channels::inbound::{Chat, Inbound, RemoteFile, Sender};
use crate::sessions::PeerKind;

/// How the id begins of what somebody says by a button. It is no number: there is no
/// message that could be quoted by it.
const PRESS: &str = "press-";

/// Who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bot {
    /// The bot's id.
    pub id: i64,
    /// Its name, without `@`.
    pub username: String,
}

/// Whether two updates are parts of one album: pictures that somebody sends
/// together come as a message each.
pub fn is_same_album(one: &Value, other: &Value) -> bool {
    let (one, other) = (&one["message"], &other["message"]);
    one["media_group_id"].is_string()
        && one["media_group_id"] == other["media_group_id"]
        && one["chat"]["id"] == other["chat"]["id"]
        && one["from"]["id"] == other["from"]["id"]
}

/// The message of an update; `None` when it is none that is for us.
pub fn read(update: &Value, bot: &Bot) -> Option<Inbound> {
    read_album(&[update], bot)
}

/// The parts of an album as one message, known by its first; a single update as
/// it is. `None` when nothing of it is for us.
pub fn read_album(updates: &[&Value], bot: &Bot) -> Option<Inbound> {
    let mut parts = updates.iter().filter_map(|update| read_part(update, bot));
    let mut whole = parts.next()?;
    for part in parts {
        let is_new = !part.text.trim().is_empty() && part.text != whole.text;
        if is_new && !whole.text.is_empty() {
            whole.text.push('\n');
        }
        if is_new {
            whole.text.push_str(&part.text);
        }
        whole.files.extend(part.files);
        whole.is_mention |= part.is_mention;
        whole.quoted = whole.quoted.or(part.quoted);
    }
    let of_others = updates.first().and_then(|update| content::forwarded(&update["message"]));
    if let Some(line) = of_others {
        // Somebody else's words are no command, and stop nothing.
        whole.text = format!("{line}\n{}", whole.text);
        whole.without_name = None;
    }
    Some(whole)
}

/// The ids of a group that has become a supergroup: the one that it had, and the one that
/// it has. Both chats are told.
fn moved(message: &Value) -> Option<(i64, i64)> {
    let id = |name: &str| message[name].as_i64();
    let chat = message["chat"]["id"].as_i64()?;
    let from_here = id("migrate_to_chat_id").map(|to| (chat, to));
    from_here.or_else(|| Some((id("migrate_from_chat_id")?, chat)))
}

/// Whether an update tells that a group has another id.
pub fn is_move(update: &Value) -> bool {
    moved(&update["message"]).is_some()
}

/// Nobody says anything in it.
fn read_move(message: &Value, (former, now): (i64, i64), bot: &Bot) -> Option<Inbound> {
    Some(Inbound {
        message_id: message["message_id"].as_i64()?.to_string(),
        source: Some(bot.id.to_string()),
        chat: Chat {
            kind: PeerKind::Group,
            id: now.to_string(),
            title: message["chat"]["title"].as_str().map(str::to_owned),
            thread: None,
            former: Some(former.to_string()),
        },
        sender: Sender { id: String::new(), name: None },
        text: String::new(),
        is_forwarded: false,
        attachments: Vec::new(),
        files: Vec::new(),
        is_mention: false,
        without_name: None,
        quoted: None,
    })
}

/// The message that an update is about: a new one, or that with the button that was pressed.
pub fn message_of(update: &Value) -> &Value {
    let press = &update["callback_query"];
    if press.is_object() { &press["message"] } else { &update["message"] }
}

/// The id by which the API hears that a button's press has come, where a message is one.
pub fn press_of(message_id: &str) -> Option<&str> {
    message_id.strip_prefix(PRESS)
}

/// Who presses a button of ours says what it stands for.
fn read_press(press: &Value, bot: &Bot) -> Option<Inbound> {
    let said = press["data"].as_str().filter(|said| !said.trim().is_empty())?;
    Some(Inbound {
        message_id: format!("{PRESS}{}", press["id"].as_str()?),
        source: Some(bot.id.to_string()),
        chat: chat(&press["message"])?,
        sender: sender(&press["from"])?,
        text: said.to_owned(),
        is_forwarded: false,
        attachments: Vec::new(),
        files: Vec::new(),
        is_mention: true,
        without_name: None,
        quoted: None,
    })
}

fn chat(message: &Value) -> Option<Chat> {
    let chat = &message["chat"];
    let kind = match chat["type"].as_str()? {
        "private" => PeerKind::Direct,
        "group" | "supergroup" => PeerKind::Group,
        _ => return None,
    };
    let is_topic = kind == PeerKind::Group && message["is_topic_message"] == true;
    let thread = message["message_thread_id"].as_i64();
    Some(Chat {
        kind,
        id: chat["id"].as_i64()?.to_string(),
        title: chat["title"].as_str().map(str::to_owned),
        thread: thread.filter(|_| is_topic).map(|id| id.to_string()),
        former: None,
    })
}

/// Other bots are nobody.
fn sender(from: &Value) -> Option<Sender> {
    let id = from["id"].as_i64().filter(|_| from["is_bot"] != true)?;
    Some(Sender { id: id.to_string(), name: name(from) })
}

fn read_part(update: &Value, bot: &Bot) -> Option<Inbound> {
    let press = &update["callback_query"];
    if press.is_object() {
        return read_press(press, bot);
    }
    let message = &update["message"];
    if let Some(ids) = moved(message) {
        return read_move(message, ids, bot);
    }
    let (chat, sender) = (chat(message)?, sender(&message["from"])?);
    let (text, entities) = match message["text"].as_str() {
        Some(text) => (text, &message["entities"]),
        None => (message["caption"].as_str().unwrap_or_default(), &message["caption_entities"]),
    };
    let (files, shown) = (files(message), content::shown(message));
    if text.trim().is_empty() && files.is_empty() && shown.is_none() {
        tracing::debug!(chat = chat.id, "a message has nothing that is told to an agent");
        return None;
    }
    let is_own = message["forward_origin"].is_null();
    let said = if is_own { own_command(text, bot)? } else { text.to_owned() };
    let names = own_names(text, entities, bot);
    let without_name = names.iter().find_map(|name| without(&said, name));
    // The API marks `/command@us` as a command only.
    let names_us = said != text;
    let answers_us = content::answered(message).is_some_and(|it| it["from"]["id"] == bot.id);
    let lines = [Some(said).filter(|said| !said.is_empty()), shown];
    Some(Inbound {
        message_id: message["message_id"].as_i64()?.to_string(),
        source: Some(bot.id.to_string()),
        chat,
        sender,
        text: lines.into_iter().flatten().collect::<Vec<_>>().join("\n"),
        is_forwarded: !is_own,
        attachments: Vec::new(),
        files,
        is_mention: answers_us || names_us || !names.is_empty(),
        without_name,
        quoted: content::quoted(message, bot.id),
    })
}

/// The text with `/command@us` as `/command`; `None` for a command of another
/// bot.
fn own_command(text: &str, bot: &Bot) -> Option<String> {
    let (word, _) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let Some((command, name)) = word.split_once('@').filter(|_| word.starts_with('/')) else {
        return Some(text.to_owned());
    };
    let rest = text.get(word.len()..).unwrap_or_default();
    name.eq_ignore_ascii_case(&bot.username).then(|| format!("{command}{rest}"))
}

/// What we are called by in a text, as it is written there; empty where that is not told.
fn own_names(text: &str, entities: &Value, bot: &Bot) -> Vec<String> {
    let own = format!("@{}", bot.username);
    let entities = entities.as_array().into_iter().flatten();
    let names = entities.filter_map(|entity| {
        let name = part(text, entity).unwrap_or_default();
        let is_own = match entity["type"].as_str() {
            Some("mention") => name.eq_ignore_ascii_case(&own),
            Some("text_mention") => entity["user"]["id"] == bot.id,
            _ => false,
        };
        is_own.then_some(name)
    });
    names.collect()
}

/// A text without this name before or behind it, where it is there.
fn without(text: &str, name: &str) -> Option<String> {
    let text = text.trim();
    let rest = text.strip_prefix(name).or_else(|| text.strip_suffix(name));
    let rest = rest.filter(|_| !name.is_empty())?;
    Some(rest.trim_matches(|c: char| c.is_whitespace() || ",:".contains(c)).to_owned())
}

/// The part of a text that an entity means; the API counts in UTF-16.
fn part(text: &str, entity: &Value) -> Option<String> {
    let number = |name: &str| usize::try_from(entity[name].as_u64()?).ok();
    let units = text.encode_utf16().skip(number("offset")?).take(number("length")?);
    String::from_utf16(&units.collect::<Vec<_>>()).ok()
}

/// The files of a message; of a photo the largest size.
fn files(message: &Value) -> Vec<RemoteFile> {
    let photo = message["photo"].as_array().and_then(|sizes| sizes.last());
    let photo = photo.map(|photo| (photo, "photo.jpg", Some("image/jpeg")));
    let named = [
        ("document", "file", None),
        ("audio", "audio.mp3", Some("audio/mpeg")),
        ("voice", "voice.ogg", Some("audio/ogg")),
        ("video", "video.mp4", Some("video/mp4")),
        ("video_note", "video.mp4", Some("video/mp4")),
        ("animation", "animation.mp4", Some("video/mp4")),
        ("sticker", "sticker.webp", Some("image/webp")),
    ];
    // An animation is told as a document as well.
    let has_animation = message["animation"].is_object();
    let named = named.into_iter().filter(|it| !(has_animation && it.0 == "document"));
    let named = named.filter(|it| it.0 != "sticker" || content::is_still(&message["sticker"]));
    let named = named.map(|(member, name, kind)| (&message[member], name, kind));
    let found = photo.into_iter().chain(named).filter_map(|(file, name, kind)| {
        let text = |member: &str| file[member].as_str().map(str::to_owned);
        Some(RemoteFile {
            id: text("file_id")?,
            name: text("file_name").unwrap_or_else(|| name.to_owned()),
            mime_type: text("mime_type").or(kind.map(str::to_owned)),
            size: file["file_size"].as_u64(),
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn bot() -> Bot {
        Bot { id: 99, username: "ClawBot".into() }
    }

    fn message(text: &str) -> Value {
        json!({"message_id": 5, "from": {"id": 7, "first_name": "Ann", "last_name": "B"},
            "chat": {"id": -100, "type": "supergroup", "title": "Team"}, "text": text})
    }

    fn read_message(message: &Value) -> Option<Inbound> {
        read(&json!({"update_id": 1, "message": message}), &bot())
    }

    #[test]
    fn a_message_is_read_with_its_topic_and_who_wrote_it() {
        let mut written = message("hi");
        written["is_topic_message"] = json!(true);
        written["message_thread_id"] = json!(3);
        let inbound = read_message(&written).unwrap();
        assert_eq!((inbound.message_id.as_str(), inbound.sender.id.as_str()), ("5", "7"));
        assert_eq!(inbound.sender.name.as_deref(), Some("Ann B"));
        assert_eq!(
            (inbound.chat.kind, inbound.chat.thread.as_deref()),
            (PeerKind::Group, Some("3"))
        );
        assert!(!inbound.is_mention);
        // Answers in a group without topics have a thread, too, which is none.
        written["is_topic_message"] = json!(false);
        assert_eq!(read_message(&written).unwrap().chat.thread, None);
        written["from"]["is_bot"] = json!(true);
        assert_eq!(read_message(&written), None);
        let edited = json!({"update_id": 1, "edited_message": message("x")});
        assert_eq!(super::read(&edited, &bot()), None);
    }

    #[test]
    fn a_button_says_its_value_for_who_presses_it_where_it_is() {
        let pressed = |from: Value, data: &str| {
            let mut shown = message("sure?");
            shown["from"] = json!({"id": 99, "is_bot": true});
            shown["is_topic_message"] = json!(true);
            shown["message_thread_id"] = json!(3);
            json!({"update_id": 1, "callback_query": {"id": "4001", "from": from,
                "message": shown, "data": data}})
        };
        let update = pressed(json!({"id": 7, "first_name": "Ann"}), "yes");
        assert_eq!(message_of(&update)["chat"]["id"], -100);
        let said = super::read(&update, &bot()).unwrap();
        assert_eq!((said.text.as_str(), said.sender.id.as_str()), ("yes", "7"));
        assert_eq!((said.chat.id.as_str(), said.chat.thread.as_deref()), ("-100", Some("3")));
        assert_eq!((press_of(&said.message_id), press_of("4001")), (Some("4001"), None));
        assert!(said.is_mention && said.quoted.is_none());
        for (from, data) in [(json!({"id": 8, "is_bot": true}), "yes"), (json!({"id": 7}), " ")] {
            assert_eq!(super::read(&pressed(from, data), &bot()), None);
        }
    }

    #[test]
    fn a_mention_is_one_by_its_place_and_not_by_its_looks() {
        let mut written = message("👍 @clawbot hi");
        assert!(!read_message(&written).unwrap().is_mention);
        written["entities"] = json!([{"type": "mention", "offset": 3, "length": 8}]);
        assert!(read_message(&written).unwrap().is_mention);
        written["entities"] = json!([{"type": "mention", "offset": 3, "length": 7}]);
        assert!(!read_message(&written).unwrap().is_mention);
        written["entities"] = json!([{"type": "text_mention", "offset": 0, "length": 1,
            "user": {"id": 99}}]);
        assert!(read_message(&written).unwrap().is_mention);
        let mut answer = message("yes");
        answer["reply_to_message"] = json!({"from": {"id": 99}, "text": "sure?"});
        let read = read_message(&answer).unwrap();
        assert!(read.is_mention && read.quoted.as_deref() == Some("you: sure?"));
    }

    #[test]
    fn our_name_before_or_behind_a_text_is_no_part_of_what_it_says() {
        let said = |text: &str, offset: usize, length: usize| {
            let mut written = message(text);
            written["entities"] = json!([{"type": "mention", "offset": offset, "length": length}]);
            written["reply_to_message"] = json!({"from": {"id": 99}});
            let read = read_message(&written).unwrap();
            assert!(read.is_mention && read.text == text, "{text}");
            read.without_name
        };
        for (text, offset) in [("@clawbot stop", 0), ("@ClawBot,  stop ", 0), ("stop @clawbot", 5)]
        {
            assert_eq!(said(text, offset, 8).as_deref(), Some("stop"), "{text}");
        }
        assert_eq!(said("@bob stop", 0, 4), None, "somebody else is meant");
        assert_eq!(said("say @clawbot twice", 4, 8), None);
    }

    #[test]
    fn commands_of_other_bots_are_theirs() {
        assert_eq!(read_message(&message("/new@clawbot x")).unwrap().text, "/new x");
        assert_eq!(read_message(&message("/new x@y")).unwrap().text, "/new x@y");
        assert_eq!(read_message(&message("/new@otherbot")), None);
        // Whatever the word is, it is said to us.
        let greeted = read_message(&message("/greet@clawbot")).unwrap();
        assert_eq!((greeted.text.as_str(), greeted.is_mention), ("/greet", true));
        assert!(!read_message(&message("/greet")).unwrap().is_mention);
    }

    #[test]
    fn a_group_that_becomes_a_supergroup_tells_its_ids_in_both_chats() {
        let there = json!({"message_id": 9, "from": {"id": 7}, "migrate_to_chat_id": -1005,
            "chat": {"id": -5, "type": "group", "title": "Team"}});
        let here = json!({"message_id": 1, "from": {"id": 1, "is_bot": true},
            "chat": {"id": -1005, "type": "supergroup", "title": "Team"},
            "migrate_from_chat_id": -5});
        for told in [there, here] {
            assert!(is_move(&json!({"update_id": 1, "message": told})));
            let chat = read_message(&told).unwrap().chat;
            assert_eq!((chat.id.as_str(), chat.former.as_deref()), ("-1005", Some("-5")));
        }
        assert!(!is_move(&json!({"update_id": 1, "message": message("hi")})));
        assert_eq!(read_message(&message("hi")).unwrap().chat.former, None);
    }

    #[test]
    fn an_album_is_one_message_with_all_its_files_and_words() {
        let part = |id: i64, from: i64, album: &str, caption: Option<&str>| {
            let mut written = message("");
            written["message_id"] = json!(id);
            written["from"]["id"] = json!(from);
            written["media_group_id"] = json!(album);
            written["photo"] = json!([{"file_id": format!("p{id}")}]);
            written["caption"] = json!(caption);
            written.as_object_mut().unwrap().remove("text");
            json!({"update_id": id, "message": written})
        };
        let (one, two) = (part(1, 7, "a", None), part(2, 7, "a", Some("look")));
        assert!(is_same_album(&one, &two));
        for other in [part(3, 7, "b", None), part(3, 8, "a", None)] {
            assert!(!is_same_album(&one, &other));
        }
        assert!(!is_same_album(&json!({"message": {}}), &json!({"message": {}})));
        let whole = read_album(&[&one, &two], &bot()).unwrap();
        assert_eq!((whole.message_id.as_str(), whole.text.as_str()), ("1", "look"));
        let files: Vec<_> = whole.files.iter().map(|file| file.id.as_str()).collect();
        assert_eq!(files, ["p1", "p2"]);
    }

    #[test]
    fn what_somebody_forwards_is_no_command_and_says_whose_it_is_once() {
        let forward = |text: &str| {
            let mut written = message(text);
            written["forward_origin"] = json!({"type": "hidden_user", "sender_user_name": "Eve"});
            written
        };
        for text in ["/new@clawbot", "/new@otherbot", "@clawbot stop"] {
            let mut written = forward(text);
            written["entities"] = json!([{"type": "mention", "offset": 0, "length": 8}]);
            let read = read_message(&written).unwrap();
            assert_eq!(read.text, format!("[Forwarded from Eve]\n{text}"));
            assert!(read.is_forwarded && read.without_name.is_none());
        }
        let part = |id: i64| {
            let mut written = forward("");
            written["photo"] = json!([{"file_id": format!("p{id}")}]);
            let caption = if id == 2 { "look" } else { "" };
            written["caption"] = json!(caption);
            written.as_object_mut().unwrap().remove("text");
            json!({"update_id": id, "message": written})
        };
        let whole = read_album(&[&part(1), &part(2)], &bot()).unwrap();
        assert_eq!((whole.text.as_str(), whole.files.len()), ("[Forwarded from Eve]\nlook", 2));
        assert!(whole.is_forwarded && !read_message(&message("look")).unwrap().is_forwarded);
    }

    #[test]
    fn a_sticker_is_told_and_only_one_that_is_a_picture_is_a_file() {
        for (is_video, files) in [(false, 1), (true, 0)] {
            let mut written = message("");
            written.as_object_mut().unwrap().remove("text");
            written["sticker"] = json!({"file_id": "s", "emoji": "😀", "is_video": is_video});
            let read = read_message(&written).unwrap();
            assert!(read.text.starts_with("Sticker 😀"), "{}", read.text);
            assert_eq!(read.files.len(), files);
        }
    }

    #[test]
    fn files_are_found_and_a_photo_is_its_largest_size() {
        let mut written = message("");
        assert_eq!(read_message(&written), None);
        written.as_object_mut().unwrap().remove("text");
        written["caption"] = json!("look");
        written["photo"] =
            json!([{"file_id": "s", "file_size": 1}, {"file_id": "l", "file_size": 9}]);
        let read = read_message(&written).unwrap();
        assert_eq!((read.text.as_str(), read.files[0].id.as_str()), ("look", "l"));
        written["document"] = json!({"file_id": "d", "file_name": "a.pdf"});
        assert_eq!(read_message(&written).unwrap().files[1].name, "a.pdf");
    }
}
