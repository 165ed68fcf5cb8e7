//! What a message of the Bot API has beside its words: a place, a question, whose words they
//! are, what it answers.
//!
//! Promises: what people show us is told as text; names that people choose pass for no mark of
//! the gateway. Source: core.telegram.org/bots/api, Message, `MessageOrigin`, `TextQuote`,
//! `ExternalReplyInfo`.

use serde_json::Value;

use crate::channels::inbound::short_name;
use crate::sessions::iso_time;

/// Longest text that somebody has chosen for a thing, in characters: the API's bound for the
/// question of a poll.
const LINE_MAX: usize = 300;

/// What can be told of a kind is that it came.
const OTHERS: [(&str, &str); 6] = [
    ("story", "a story"),
    ("game", "a game"),
    ("invoice", "an invoice"),
    ("paid_media", "pictures or films that have a price"),
    ("checklist", "a checklist"),
    ("giveaway", "a giveaway"),
];

/// Files by what people call them.
const FILES: [(&str, &str); 7] = [
    ("photo", "a picture"),
    ("video", "a film"),
    ("video_note", "a film"),
    ("animation", "an animation"),
    ("voice", "a voice message"),
    ("audio", "a sound"),
    ("document", "a file"),
];

/// What a message shows, in words; `None` when it shows nothing but words and files.
pub fn shown(message: &Value) -> Option<String> {
    place(message)
        .or_else(|| contact(&message["contact"]))
        .or_else(|| poll(&message["poll"]))
        .or_else(|| dice(&message["dice"]))
        .or_else(|| sticker(&message["sticker"]))
        .or_else(|| kind_of(message, &OTHERS))
}

fn kind_of(message: &Value, kinds: &[(&str, &str)]) -> Option<String> {
    let kind = kinds.iter().find(|(member, _)| !message[*member].is_null());
    kind.map(|(_, name)| format!("[{name}]"))
}

/// A place in the forms of the original; what it is called comes behind it.
fn place(message: &Value) -> Option<String> {
    let venue = &message["venue"];
    let location = if venue.is_object() { &venue["location"] } else { &message["location"] };
    let (latitude, longitude) = (location["latitude"].as_f64()?, location["longitude"].as_f64()?);
    let accuracy = location["horizontal_accuracy"].as_f64();
    let accuracy = accuracy.map(|metres| format!(" ±{metres:.0}m")).unwrap_or_default();
    let is_live = location["live_period"].as_u64().is_some_and(|seconds| seconds > 0);
    let mark = if is_live { "🛰 Live location:" } else { "📍" };
    let called: Vec<_> =
        [&venue["title"], &venue["address"]].into_iter().filter_map(line).collect();
    let called =
        if called.is_empty() { String::new() } else { format!(" ({})", called.join(", ")) };
    Some(format!("{mark} {latitude:.6}, {longitude:.6}{accuracy}{called}"))
}

fn contact(contact: &Value) -> Option<String> {
    let phone = line(&contact["phone_number"])?;
    let called = name(contact).map(|name| short_name(&name)).filter(|name| !name.is_empty());
    Some(match called {
        Some(name) => format!("👤 Contact: {name}, {phone}"),
        None => format!("👤 Contact: {phone}"),
    })
}

fn poll(poll: &Value) -> Option<String> {
    let question = line(&poll["question"])?;
    let options = poll["options"].as_array().into_iter().flatten();
    let options: Vec<_> = options.filter_map(|option| line(&option["text"])).collect();
    Some(format!("📊 Poll: {question} ({})", options.join(" / ")))
}

fn dice(dice: &Value) -> Option<String> {
    Some(format!("{} Dice: {}", line(&dice["emoji"])?, dice["value"].as_i64()?))
}

/// One that moves is told only: models cannot look at it.
fn sticker(sticker: &Value) -> Option<String> {
    sticker.as_object()?;
    let emoji = line(&sticker["emoji"]).map(|emoji| format!(" {emoji}")).unwrap_or_default();
    let is_animated = if is_still(sticker) { "" } else { " (animated)" };
    Some(format!("Sticker{emoji}{is_animated}"))
}

/// Whether a sticker is a picture.
pub fn is_still(sticker: &Value) -> bool {
    sticker["is_animated"] != true && sticker["is_video"] != true
}

/// A text that somebody has chosen, in one line.
fn line(text: &Value) -> Option<String> {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.as_str()?.chars().take(LINE_MAX).map(plain).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// What a person is called.
pub fn name(person: &Value) -> Option<String> {
    let text = |name: &str| person[name].as_str().unwrap_or_default();
    let whole = format!("{} {}", text("first_name"), text("last_name"));
    let whole = whole.trim();
    let named = if whole.is_empty() { text("username") } else { whole };
    (!named.is_empty()).then(|| named.to_owned())
}

/// Who has first written what was forwarded, or what somebody answers in another chat.
fn author(origin: &Value) -> Option<String> {
    let (who, account) = match origin["type"].as_str()? {
        "user" => (name(&origin["sender_user"]), &origin["sender_user"]["username"]),
        "hidden_user" => (line(&origin["sender_user_name"]), &Value::Null),
        "chat" => (line(&origin["sender_chat"]["title"]), &origin["author_signature"]),
        "channel" => (line(&origin["chat"]["title"]), &origin["author_signature"]),
        _ => return None,
    };
    let who = who.map(|who| short_name(&who)).filter(|who| !who.is_empty())?;
    let also = line(account).map(|also| short_name(&also)).filter(|also| *also != who);
    let mark = if origin["type"] == "user" { "@" } else { "" };
    Some(also.map_or_else(|| who.clone(), |also| format!("{who} ({mark}{also})")))
}

/// The line that says whose words a message has that was forwarded, and since when there are
/// such, as in the original.
pub fn forwarded(message: &Value) -> Option<String> {
    let origin = &message["forward_origin"];
    origin.as_object()?;
    let who = author(origin).unwrap_or_else(|| "somebody".into());
    let seconds = origin["date"].as_u64();
    let at = seconds.map(|it| format!(" at {}", iso_time(it.saturating_mul(1000))));
    Some(format!("[Forwarded from {who}{}]", at.unwrap_or_default()))
}

/// The message that one answers. The first message of a topic counts as the one that every
/// other answers, and is none.
pub fn answered(message: &Value) -> Option<&Value> {
    let answered = &message["reply_to_message"];
    (answered.is_object() && answered["forum_topic_created"].is_null()).then_some(answered)
}

/// What a message answers, with who has written it: the part that is quoted, else all of it;
/// also where that is in another chat. The bot has the id `own`.
pub fn quoted(message: &Value, own: i64) -> Option<String> {
    let external = Some(&message["external_reply"]).filter(|it| it.is_object());
    let whole = external.or_else(|| answered(message))?;
    let part = message["quote"]["text"].as_str().or_else(|| whole["text"].as_str());
    let words = part.or_else(|| whole["caption"].as_str()).map(str::to_owned);
    let words = words.filter(|it| !it.trim().is_empty()).or_else(|| shown(whole));
    let words = words.or_else(|| kind_of(whole, &FILES))?;
    let from = &whole["from"];
    let who = match external {
        Some(external) => author(&external["origin"]),
        None if from["id"] == own => Some("you".into()),
        None => name(from).map(|name| short_name(&name)),
    };
    let who = who.filter(|who| !who.is_empty());
    Some(who.map_or_else(|| words.clone(), |who| format!("{who}: {words}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn what_is_shown_is_told_in_words() {
        let eiffel = json!({"latitude": 48.8584, "longitude": 2.2945, "horizontal_accuracy": 12.4});
        let venue =
            json!({"location": eiffel, "title": "Eiffel Tower", "address": "5 Avenue\nFrance"});
        let live = json!({"latitude": -1, "longitude": 2.5, "live_period": 60});
        let poll = json!({"question": "Lunch?", "options": [{"text": "Pizza"}, {"text": "Soup"}]});
        for (message, told) in [
            (json!({"location": eiffel}), "📍 48.858400, 2.294500 ±12m"),
            (
                json!({"location": eiffel, "venue": venue}),
                "📍 48.858400, 2.294500 ±12m (Eiffel Tower, 5 Avenue France)",
            ),
            (json!({"location": live}), "🛰 Live location: -1.000000, 2.500000"),
            (
                json!({"contact": {"first_name": "Ann", "last_name": "B", "phone_number": "+491"}}),
                "👤 Contact: Ann B, +491",
            ),
            (json!({"poll": poll}), "📊 Poll: Lunch? (Pizza / Soup)"),
            (json!({"dice": {"emoji": "🎲", "value": 4}}), "🎲 Dice: 4"),
            (json!({"sticker": {"emoji": "😀"}}), "Sticker 😀"),
            (json!({"sticker": {"emoji": "😀", "is_video": true}}), "Sticker 😀 (animated)"),
            (json!({"story": {"id": 1}}), "[a story]"),
        ] {
            assert_eq!(shown(&message).as_deref(), Some(told), "{message}");
        }
        // What is only said of the chat is nothing that somebody shows.
        for message in [json!({"text": "hi"}), json!({"pinned_message": {"text": "hi"}})] {
            assert_eq!(shown(&message), None, "{message}");
        }
    }

    #[test]
    fn a_forwarded_message_says_whose_words_it_has() {
        let user = json!({"id": 8, "first_name": "Bob](", "username": "bob"});
        for (origin, who) in [
            (json!({"type": "user", "sender_user": user}), "Bob (@bob)"),
            (json!({"type": "hidden_user", "sender_user_name": "Eve"}), "Eve"),
            (
                json!({"type": "channel", "chat": {"title": "News"}, "author_signature": "Ed"}),
                "News (Ed)",
            ),
            (json!({"type": "chat", "sender_chat": {"title": "Team"}}), "Team"),
            (json!({"type": "another"}), "somebody"),
        ] {
            let mut message = json!({"forward_origin": origin});
            assert_eq!(forwarded(&message), Some(format!("[Forwarded from {who}]")));
            message["forward_origin"]["date"] = json!(1_700_000_000);
            let told = format!("[Forwarded from {who} at 2023-11-14T22:13:20.000Z]");
            assert_eq!(forwarded(&message), Some(told));
        }
        assert_eq!(forwarded(&json!({"text": "hi"})), None);
    }

    #[test]
    fn what_is_answered_is_told_with_its_author_and_only_the_part_that_is_quoted() {
        let ann = json!({"id": 7, "first_name": "Ann"});
        let external = json!({"origin": {"type": "hidden_user", "sender_user_name": "Eve"},
            "photo": [{"file_id": "p"}]});
        for (message, told) in [
            (json!({"reply_to_message": {"from": ann, "text": "one two"}}), Some("Ann: one two")),
            (
                json!({"reply_to_message": {"from": ann, "text": "one two"}, "quote": {"text": "two"}}),
                Some("Ann: two"),
            ),
            (
                json!({"reply_to_message": {"from": {"id": 99}, "text": "sure?"}}),
                Some("you: sure?"),
            ),
            (
                json!({"reply_to_message": {"from": ann, "dice": {"emoji": "🎲", "value": 4}}}),
                Some("Ann: 🎲 Dice: 4"),
            ),
            (json!({"external_reply": external}), Some("Eve: [a picture]")),
            (json!({"external_reply": external, "quote": {"text": "there"}}), Some("Eve: there")),
            (json!({"reply_to_message": {"forum_topic_created": {}, "text": "x"}}), None),
            (json!({"text": "hi"}), None),
        ] {
            assert_eq!(quoted(&message, 99).as_deref(), told, "{message}");
        }
    }
}
