//! Files of a message that are still with its service.
//!
//! Promises: a service that fails for a while only is asked again a few times; a message waits a
//! minute at most, however many files there are; a file that cannot be had is told in words, and
//! the words of the message are not lost for it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::time::{Instant, timeout_at};

use super::channel::{Channel, SendFailure};
use super::inbound::{Inbound, RemoteFile, short_name};
use crate::support::json;

/// How often a file is asked for.
const TRIES: u32 = 4;
/// How long the second try waits where the service says nothing; each other twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest wait before a file is asked for again: who wants to be left alone for longer is not
/// asked any more.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// So long the files of a message are waited for in all: what is said in its chat later waits as
/// well.
const LIMIT: Duration = Duration::from_mins(1);

/// Gets the files of a message.
pub(super) async fn fetch_all(channel: &dyn Channel, inbound: &mut Inbound) {
    let until = Instant::now() + LIMIT;
    for file in std::mem::take(&mut inbound.files) {
        let fetched = timeout_at(until, fetch(channel, &file, until)).await;
        match fetched.unwrap_or_else(|_| Err(SendFailure::Refused("it takes too long".into()))) {
            Ok(bytes) => inbound.attachments.push(json!({"fileName": file.name,
                "mimeType": file.mime_type, "content": STANDARD.encode(bytes)})),
            Err(error) => {
                tracing::warn!(file = file.name, %error, "file of a message not fetched");
                let (name, why) = (short_name(&file.name), error.to_string());
                let note = ["\n[File ", &name, " could not be fetched: ", &why, "]"];
                inbound.text.extend(note);
            }
        }
    }
}

async fn fetch(
    channel: &dyn Channel,
    file: &RemoteFile,
    until: Instant,
) -> Result<Vec<u8>, SendFailure> {
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        let fetched = channel.fetch(file).await;
        let Err(SendFailure::Later { after, why }) = &fetched else { return fetched };
        let wait = after.unwrap_or(pause);
        if wait > PAUSE_MAX || Instant::now() + wait > until {
            return fetched;
        }
        tracing::debug!(file = file.name, why, ?wait, "file asked for again");
        tokio::time::sleep(wait).await;
        pause = pause.saturating_mul(2);
    }
    channel.fetch(file).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::Value;

    use super::*;
    use crate::channels::body::Body;
    use crate::channels::channel::Sent;
    use crate::channels::inbound::{Chat, Sender};
    use crate::sessions::PeerKind;
    use crate::store::OutboxPart;
    use crate::support::BoxFuture;

    /// A service that never gives a file.
    struct Busy {
        /// How long it wants to be left alone.
        after: Option<Duration>,
        /// How long it takes to say so.
        takes: Duration,
        asked: AtomicU32,
    }

    impl Channel for Busy {
        fn send<'a>(
            &'a self,
            _part: &'a OutboxPart,
            _body: &'a Body,
        ) -> BoxFuture<'a, Result<Sent, SendFailure>> {
            Box::pin(std::future::ready(Err(SendFailure::Refused("busy".into()))))
        }

        fn fetch<'a>(
            &'a self,
            _file: &'a RemoteFile,
        ) -> BoxFuture<'a, Result<Vec<u8>, SendFailure>> {
            Box::pin(async move {
                self.asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(self.takes).await;
                Err(SendFailure::Later { after: self.after, why: "busy".into() })
            })
        }

        fn probe(&self) -> BoxFuture<'_, Result<Value, String>> {
            Box::pin(std::future::ready(Err("busy".into())))
        }

        fn mode(&self) -> &'static str {
            "polling"
        }
    }

    fn file() -> RemoteFile {
        RemoteFile { id: "f".into(), name: "f".into(), mime_type: None, size: None }
    }

    #[tokio::test(start_paused = true)]
    async fn an_album_of_slow_files_is_waited_for_for_a_minute_in_all() {
        let chat = Chat {
            kind: PeerKind::Direct,
            id: "7".into(),
            title: None,
            thread: None,
            former: None,
        };
        let mut inbound = Inbound {
            message_id: "1".into(),
            source: None,
            chat,
            sender: Sender { id: "7".into(), name: None },
            text: "look".into(),
            is_forwarded: false,
            attachments: vec![],
            files: vec![file(); 10],
            is_mention: false,
            without_name: None,
            quoted: None,
        };
        let takes = Duration::from_secs(100);
        let service = Busy { after: None, takes, asked: AtomicU32::new(0) };
        let begun = Instant::now();
        fetch_all(&service, &mut inbound).await;
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
        let note = "\n[File f could not be fetched: it takes too long]";
        assert_eq!(inbound.text, format!("look{}", note.repeat(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_asked_for_again_a_few_times_and_for_a_minute_in_all() {
        let (file, seconds) = (file(), Duration::from_secs);
        for (after, takes, times) in [
            (None, seconds(0), [4, 4]),
            (Some(seconds(25)), seconds(0), [3, 1]),
            // It wants to be left alone for longer than anybody waits.
            (Some(seconds(600)), seconds(0), [1, 1]),
            // It timed out.
            (None, seconds(100), [1, 1]),
        ] {
            let service = Busy { after, takes, asked: AtomicU32::new(0) };
            let until = Instant::now() + LIMIT;
            for times in times {
                let lost = fetch(&service, &file, until).await.unwrap_err();
                assert!(matches!(lost, SendFailure::Later { .. }), "{lost:?}");
                assert_eq!(service.asked.swap(0, Ordering::Relaxed), times, "{after:?} {takes:?}");
            }
        }
    }
}
