//! The messages that a text and its files become.

use super::body::{Body, MediaItem};
use super::chunk::{Measure, chunks};
use super::state::Account;
use crate::config::channels::ReplyToMode;
use crate::store::{NewPart, OutboxAddress};
use crate::support::reading;

/// Longest text that goes with a file, in units of UTF-16: what Telegram takes.
const CAPTION_MAX: usize = 1000;

/// What becomes messages.
pub(super) struct Message<'a> {
    /// What it says.
    pub text: &'a str,
    /// What comes with it.
    pub media: &'a [MediaItem],
    /// What the first message is beside its text.
    pub first: Body,
    /// Which of the messages quote what is answered.
    pub quotes: ReplyToMode,
    /// Whether the one with the end of the text does so in any case.
    pub end_quotes: bool,
}

/// The messages that a text and files become, in order. A text that is short
/// enough goes with the first file, unless it takes the place of a message that
/// is there. Buttons are under the last message.
pub(super) fn message_parts(
    account: &Account,
    delivery: &str,
    address: &OutboxAddress,
    message: &Message<'_>,
) -> Vec<NewPart> {
    let Message { text, media, first, .. } = message;
    let fits = text.encode_utf16().count() <= CAPTION_MAX && first.edits.is_none();
    let is_caption = !media.is_empty() && fits;
    let mut bodies = if is_caption { Vec::new() } else { texts(account, message) };
    for item in *media {
        let is_first = bodies.is_empty();
        bodies.push(Body {
            text: if is_caption && is_first { (*text).to_owned() } else { String::new() },
            media: Some(item.clone()),
            reply_to: first.reply_to.clone().filter(|_| message.quotes(bodies.len())),
            is_silent: first.is_silent,
            ..Body::default()
        });
    }
    let end = bodies.iter_mut().rfind(|body| !body.text.is_empty());
    if let Some(end) = end.filter(|_| message.end_quotes) {
        end.reply_to.clone_from(&first.reply_to);
    }
    if let Some(last) = bodies.last_mut() {
        last.buttons.clone_from(&first.buttons);
    }
    let numbered = (0_u32..).zip(&bodies);
    numbered.map(|(part, body)| new_part(delivery, address, part, body)).collect()
}

/// Whether a part takes the place of what was shown: files alone do not.
pub(super) fn takes_place(part: &NewPart) -> bool {
    reading::text::<Body>(&part.body).is_ok_and(|body| body.edits.is_some())
}

fn texts(account: &Account, message: &Message<'_>) -> Vec<Body> {
    let (config, first) = (&account.config, &message.first);
    let measure = Measure::of_service(config.kind);
    let texts = chunks(message.text, config.chunk_limit, measure, config.chunk_mode);
    let of_parts = (texts.len() > 1).then_some(texts.len());
    let numbered = texts.into_iter().enumerate();
    numbered
        .map(|(place, text)| Body {
            text,
            reply_to: first.reply_to.clone().filter(|_| message.quotes(place)),
            edits: first.edits.clone().filter(|_| place == 0),
            is_silent: first.is_silent,
            of_parts,
            ..Body::default()
        })
        .collect()
}

impl Message<'_> {
    /// Whether the message at a place quotes what it answers.
    const fn quotes(&self, place: usize) -> bool {
        match self.quotes {
            ReplyToMode::Off => false,
            ReplyToMode::First => place == 0,
            ReplyToMode::All => true,
        }
    }
}

/// A part of the outbox.
pub(super) fn new_part(delivery: &str, address: &OutboxAddress, part: u32, body: &Body) -> NewPart {
    NewPart {
        delivery: delivery.to_owned(),
        address: address.clone(),
        part,
        // A body is texts and numbers: it always has a JSON form.
        body: serde_json::to_string(body).unwrap_or_default(),
    }
}
