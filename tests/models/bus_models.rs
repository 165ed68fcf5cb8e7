//! The bus, its connections and what waits for them.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

use crate::auth::Principal;
use crate::bus::{
    Audience, Batch, ChatMark, Closing, Event, EventKind, Hub, Item, Outbox, Subscriber,
};
use crate::protocol::Response;
use crate::sessions::SessionKey;
use crate::telemetry::metrics::NUMBERS;

/// Events of one sender; two senders' are more than a connection holds.
const EVENTS: u64 = 6;

/// What one connection was sent.
struct Seen {
    payloads: Vec<Value>,
    closing: Closing,
    /// Whether it was writing when it was cut.
    was_cut: bool,
}

impl Seen {
    /// The numbers that came from this sender.
    fn from(&self, sender: u64) -> Vec<u64> {
        let mine = self.payloads.iter().filter(|it| it["sender"] == sender);
        mine.map(|it| it["number"].as_u64().unwrap()).collect()
    }
}

/// A connection's task: waits for its bell, takes, sends. One that `stalls` never comes
/// to an end of sending.
fn read(outbox: &Outbox, stalls: bool) -> Seen {
    let (mut payloads, mut was_cut) = (Vec::new(), false);
    block_on(async {
        loop {
            outbox.ready().await;
            match outbox.take() {
                Batch::Items(items) => {
                    assert!(!items.is_empty());
                    payloads.extend(items.into_iter().map(|item| match item {
                        Item::Frame(text) => json!(text),
                        Item::Written(frames) => json!(String::from_utf8(frames).unwrap()),
                        Item::Response(response) => json!(response.into_text()),
                        Item::Event(event) => serde_json::from_str(event.payload()).unwrap(),
                    }));
                    if stalls {
                        let sending = std::future::pending::<()>();
                        was_cut = outbox.unless_cut(sending).await.is_none();
                        assert_eq!(was_cut, outbox.is_closing(), "who is cut is heard no more");
                    }
                }
                Batch::Empty => {}
                Batch::Close(closing) => return Seen { payloads, closing, was_cut },
            }
        }
    })
}

fn subscriber(name: &str) -> Arc<Subscriber> {
    Arc::new(Subscriber::new(name.into(), Arc::new(Principal::of_this_machine()), &[]))
}

fn restart() -> Closing {
    Closing { code: 1012, reason: "service restart".into(), drains: true }
}

/// Each sees what each sender sent from the first on without a hole; who cannot take it
/// is cut off once, and nobody waits for him.
pub fn each_sees_a_prefix_without_a_hole() {
    let hub = Arc::new(Hub::default());
    let slow_before = NUMBERS.slow.get();
    let mut readers = Vec::new();
    let mut subscribers = Vec::new();
    for name in ["reads", "leaves", "stalls"] {
        let subscriber = subscriber(name);
        hub.join(Arc::clone(&subscriber));
        subscribers.push(Arc::clone(&subscriber));
        let of_reader = move || read(&subscriber.outbox, name == "stalls");
        readers.push(thread::spawn(of_reader));
    }
    let senders = [0, 1].map(|sender| {
        let hub = Arc::clone(&hub);
        thread::spawn(move || {
            for number in 0..EVENTS {
                let payload = json!({"sender": sender, "number": number});
                hub.deliver(&Arc::new(Event::new(EventKind::Tick, &payload)), &Audience::Everyone);
            }
        })
    });
    hub.leave("leaves");
    for sender in senders {
        sender.join().unwrap();
    }
    hub.close_all(&restart());
    subscribers[1].outbox.close(restart());
    // Who is cut off does not have to be sent his last words before.
    subscribers[2].outbox.close(Closing::auth_changed());
    let mut cut = 0;
    for (index, reader) in readers.into_iter().enumerate() {
        let seen = reader.join().unwrap();
        for sender in [0, 1] {
            let numbers = seen.from(sender);
            let whole: Vec<u64> = (0..EVENTS).collect();
            assert!(whole.starts_with(&numbers), "a hole: {numbers:?}");
            let is_complete = index == 0 && seen.closing == restart();
            assert!(!is_complete || numbers == whole, "lost: {numbers:?}");
        }
        if seen.closing.code == 1008 {
            cut += 1;
            assert!(!seen.was_cut || index == 2);
        }
        assert_eq!(subscribers[index].outbox.bytes(), 0);
    }
    assert_eq!(NUMBERS.slow.get() - slow_before, cut, "each that was cut is counted once");
}

/// An answer that was taken is sent, in order, before a close that lets what waits out.
pub fn what_was_taken_is_sent_before_the_close() {
    let subscriber = subscriber("one");
    let of = |subscriber: &Arc<Subscriber>| Arc::clone(subscriber);
    let (reading, closing) = (of(&subscriber), of(&subscriber));
    let reader = thread::spawn(move || read(&reading.outbox, false));
    let closer = thread::spawn(move || closing.outbox.close(restart()));
    let id = "1".into();
    let give = |number: u64| {
        let response = Response::new(&id, number.to_string());
        let text = response.clone().into_text();
        let outbox = &subscriber.outbox;
        let is_taken =
            if number == 1 { outbox.respond(response) } else { outbox.answer(text.clone()) };
        is_taken.then_some(Value::String(text))
    };
    let taken: Vec<Value> = (0..5).filter_map(give).collect();
    closer.join().unwrap();
    assert!(!subscriber.outbox.answer("too late".into()));
    let seen = reader.join().unwrap();
    assert_eq!((seen.payloads, seen.closing), (taken, restart()));
}

fn chat(run: &str, text: Option<u64>) -> Arc<Event> {
    let mark = ChatMark {
        run_id: run.into(),
        text: text.map(|text| text.to_string().into()),
        begins: text == Some(0),
    };
    Arc::new(Event::new(EventKind::Chat, &json!({"run": run, "text": text})).chat(mark))
}

/// However deltas give way to newer ones: each reader gets them in order, the last one
/// and then the end.
pub fn the_last_delta_and_the_end_arrive() {
    const LAST: u64 = 3;
    let (hub, subscriber) = (Arc::new(Hub::default()), subscriber("one"));
    hub.join(Arc::clone(&subscriber));
    let reading = Arc::clone(&subscriber);
    let reader = thread::spawn(move || read(&reading.outbox, false));
    let senders = ["a", "b"].map(|run| {
        let hub = Arc::clone(&hub);
        thread::spawn(move || {
            for text in (0..=LAST).map(Some).chain([None]) {
                hub.deliver(&chat(run, text), &Audience::Everyone);
            }
        })
    });
    for sender in senders {
        sender.join().unwrap();
    }
    hub.close_all(&restart());
    let seen = reader.join().unwrap();
    assert_eq!(seen.closing, restart(), "deltas that gave way take no room");
    let mut texts: HashMap<&str, Vec<Option<u64>>> = HashMap::new();
    for payload in &seen.payloads {
        texts.entry(payload["run"].as_str().unwrap()).or_default().push(payload["text"].as_u64());
    }
    for run in ["a", "b"] {
        let texts = &texts[run];
        let (end, deltas) = texts.split_last().unwrap();
        assert_eq!((*end, deltas.last()), (None, Some(&Some(LAST))), "{texts:?}");
        assert!(deltas.iter().all(Option::is_some) && deltas.is_sorted(), "{texts:?}");
    }
}

/// Between the answer to a subscription and the wish to end it, nothing is missed; before
/// the one and after the other nothing comes.
pub fn who_follows_gets_it_and_who_does_not_gets_none() {
    const TURNS_ON: u64 = 1;
    const IS_ON: u64 = 2;
    const TURNS_OFF: u64 = 3;
    const IS_OFF: u64 = 4;
    let (hub, subscriber) = (Arc::new(Hub::default()), subscriber("one"));
    let key = SessionKey::from_canonical("agent:main:main");
    hub.join(Arc::clone(&subscriber));
    let phase = Arc::new(AtomicU64::new(0));
    let reading = Arc::clone(&subscriber);
    let reader = thread::spawn(move || read(&reading.outbox, false));
    let (of_sender, audience) = (Arc::clone(&phase), Audience::MessageWatchers(key.clone()));
    let of_hub = Arc::clone(&hub);
    let sender = thread::spawn(move || {
        (0..EVENTS)
            .map(|number| {
                let before = of_sender.load(Ordering::SeqCst);
                let payload = json!({"sender": 0, "number": number});
                of_hub.deliver(&Arc::new(Event::new(EventKind::Tick, &payload)), &audience);
                (before, of_sender.load(Ordering::SeqCst))
            })
            .collect::<Vec<_>>()
    });
    phase.store(TURNS_ON, Ordering::SeqCst);
    assert!(subscriber.watch_messages(key.clone(), true));
    phase.store(IS_ON, Ordering::SeqCst);
    thread::yield_now();
    phase.store(TURNS_OFF, Ordering::SeqCst);
    assert!(subscriber.watch_messages(key, false));
    phase.store(IS_OFF, Ordering::SeqCst);
    let phases = sender.join().unwrap();
    hub.close_all(&restart());
    let got = reader.join().unwrap().from(0);
    assert!(got.is_sorted_by(|one, next| one < next), "{got:?}");
    for (number, during) in (0..EVENTS).zip(phases) {
        let has_it = got.contains(&number);
        assert!(has_it || during != (IS_ON, IS_ON), "{number} was missed: {got:?}");
        assert!(!has_it || (during.1 > 0 && during.0 < IS_OFF), "{number} came: {got:?}");
    }
}
