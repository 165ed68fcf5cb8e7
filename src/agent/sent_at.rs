//! When a person said something, as the model reads it: `[Tue 2026-12-01 15:00 UTC] hello`.
//!
//! Promises: a message has the same words before it each time, so that a provider finds what
//! it has kept of the conversation. Must not: be in transcripts, or be seen by people.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::protocol::message::{AgentMessage, UserMessage};
use crate::sessions::{OF_A_PERSON, directives};

use super::pictures::{self, Added};

/// What stands in the texts of jobs and heartbeats, which say it themselves.
const SAYS_IT: &str = "Current time: ";
/// How the runs are called that programs ask for by the HTTP API: their words stay as they are.
const OF_PROGRAMS: [&str; 2] = ["chatcmpl_", "resp_"];

/// Puts it before what people have said. Gives back what was put, with the places of the
/// messages.
pub fn put(messages: &mut [AgentMessage], zone: &TimeZone) -> Vec<(usize, Added)> {
    let mut added = Vec::new();
    for (place, message) in messages.iter_mut().enumerate() {
        let AgentMessage::User(user) = message else { continue };
        if let Some(line) = line(user, zone) {
            added.push((place, pictures::put_before(user, &line)));
        }
    }
    added
}

/// What is put before a message; nothing where no person has said it just so.
fn line(user: &UserMessage, zone: &TimeZone) -> Option<String> {
    let run_id = user.extra.get("idempotencyKey").and_then(|key| key.as_str())?;
    let is_of_program = OF_PROGRAMS.iter().any(|start| run_id.starts_with(start));
    let kind = user.extra.get("provenance").and_then(|from| from.get("kind"));
    let is_of_person = kind.is_none_or(|kind| kind == OF_A_PERSON);
    if is_of_program || !is_of_person {
        return None;
    }
    let text = user.content.text();
    let says_it = text.contains(SAYS_IT) || directives::strip_sent_at(&text).len() < text.len();
    if text.trim().is_empty() || says_it {
        return None;
    }
    let at = Timestamp::from_millisecond(i64::try_from(user.timestamp).ok()?).ok()?;
    let at = at.to_zoned(zone.clone());
    Some(at.strftime("[%a %Y-%m-%d %H:%M %Z] ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{ContentBlock, UserContent};
    use crate::support::json;

    const AT: u64 = 1_795_318_528_398;

    fn said(text: &str, run_id: Option<&str>, kind: Option<&str>) -> AgentMessage {
        let mut user = UserMessage::text(text, AT);
        user.extra.extend(run_id.map(|id| ("idempotencyKey".into(), json!(id))));
        user.extra.extend(kind.map(|kind| ("provenance".into(), json!({"kind": kind}))));
        AgentMessage::User(user)
    }

    #[test]
    fn what_a_person_has_said_has_its_time_before_it_and_nothing_else_has() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let stamped = "[Sun 2026-11-22 03:35 UTC] hello";
        for (message, zone, expected) in [
            (said("hello", Some("r"), None), &TimeZone::UTC, stamped),
            (said("hello", Some("r"), None), &berlin, "[Sun 2026-11-22 04:35 CET] hello"),
            (said("hello", Some("r"), Some("external_user")), &TimeZone::UTC, stamped),
            (said(stamped, Some("r"), None), &berlin, stamped),
            (said("hello", Some("r"), Some("inter_session")), &TimeZone::UTC, "hello"),
            (said("hello", Some("chatcmpl_1"), None), &TimeZone::UTC, "hello"),
            (said("hello", Some("resp_1"), None), &TimeZone::UTC, "hello"),
            (said("What was summed up", None, None), &TimeZone::UTC, "What was summed up"),
            (said(" ", Some("r"), None), &TimeZone::UTC, " "),
            (said("Current time: now", Some("r"), None), &TimeZone::UTC, "Current time: now"),
        ] {
            let mut messages = [message.clone()];
            let all = put(&mut messages, zone);
            assert_eq!(messages[0].text(), expected);
            let [AgentMessage::User(user)] = &mut messages else { panic!("a user") };
            for (_, added) in all {
                added.take_off(user);
            }
            assert_eq!(messages[0], message);
        }
    }

    #[test]
    fn a_picture_before_the_words_comes_back_as_it_was() {
        let AgentMessage::User(mut user) = said("", Some("r"), None) else { panic!("a user") };
        user.content = UserContent::Blocks(vec![
            ContentBlock::image("AAAA", "image/png"),
            ContentBlock::text("look"),
        ]);
        let mut messages = [AgentMessage::User(user.clone())];
        let mut all = put(&mut messages, &TimeZone::UTC);
        assert_eq!(messages[0].text(), "[Sun 2026-11-22 03:35 UTC] look");
        let [AgentMessage::User(fitted)] = &mut messages else { panic!("a user") };
        all.pop().unwrap().1.take_off(fitted);
        assert_eq!(*fitted, user);
    }
}
