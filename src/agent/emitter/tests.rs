//! The pace and the order of a run's events, for any text in any pieces.

use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::Instant;

use serde_json::Map;

use super::text::DELTA_EVERY;
use super::*;
use crate::agent::run::AbortReason;
use crate::agent::run::tests::run;
use crate::agent::tools::{ToolKind, ToolOutput};
use crate::auth::Principal;
use crate::bus::{Backplane, Batch, Hub, Item, LocalBackplane, Subscriber};
use crate::protocol::Role;
use crate::protocol::message::{StopReason, Usage};
use crate::support::SystemClock;

/// Keeps what is published, and when.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<(Instant, EventKind, Value)>>>);

impl Backplane for Recorder {
    fn wants(&self, _: EventKind, _: &Audience) -> bool {
        true
    }

    fn publish(&self, event: &Arc<Event>, _: &Audience) {
        let payload = serde_json::from_str(event.payload()).unwrap();
        self.0.lock().push((Instant::now(), event.kind, payload));
    }

    fn close_device(&self, _: &str, _: Option<&str>, _: &crate::bus::Closing, _: &str) {}

    fn load(&self) -> crate::bus::Load {
        crate::bus::Load { connections: 1, events: self.0.lock().len() as u64 }
    }
}

fn emitter() -> (Emitter, Recorder) {
    let recorder = Recorder::default();
    let bus = Bus::new(recorder.clone());
    (Emitter::new(run("r", "main"), bus, Feed::default(), Arc::new(SystemClock)), recorder)
}

/// What a model may do next.
#[derive(Debug, Clone)]
enum Step {
    Says(String),
    Waits(u64),
    CallsTool,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => "NO_REPLY|NO_|<think>|</think>|\\[\\[reply_to_current\\]\\]|MEDIA:x\n|one |two|\n|ö"
            .prop_map(Step::Says),
        4 => (0..400_u64).prop_map(Step::Waits),
        1 => Just(Step::CallsTool),
    ]
}

/// How a run may end.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Answer,
    Abort,
    Failure,
}

fn card(name: &str, meta: Option<&str>) -> Card {
    let block = json!({"type": "toolCall", "id": "c", "name": name, "arguments": {"path": "n"}});
    let call = serde_json::from_value(block).unwrap();
    Card { call, meta: meta.map(str::to_owned), kind: ToolKind::Reads, started_at: 0 }
}

fn call(emitter: &mut Emitter) {
    let card = card("t", None);
    emitter.tool_start(&card, &Map::new());
    emitter.tool_end(&card, &Map::new(), &ToolOutput::text("done"));
    emitter.next_turn(false);
}

fn is_chat(event: &(Instant, EventKind, Value), state: &str) -> bool {
    event.1 == EventKind::Chat && event.2["state"] == state
}

fn text(payload: &Value) -> String {
    payload["message"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

async fn play(steps: Vec<Step>, ending: Ending) -> (String, Vec<(Instant, EventKind, Value)>) {
    let (mut emitter, recorder) = emitter();
    emitter.start();
    for step in steps {
        match step {
            Step::Says(words) => emitter.text(&words),
            Step::Waits(millis) => tokio::time::advance(Duration::from_millis(millis)).await,
            Step::CallsTool => call(&mut emitter),
        }
    }
    match ending {
        Ending::Answer => emitter.finish(&Usage::default(), StopReason::Stop),
        Ending::Abort => emitter.abort(AbortReason::Rpc),
        Ending::Failure => emitter.fail("no", "unknown"),
    }
    let whole = emitter.whole_text();
    let events = std::mem::take(&mut *recorder.0.lock());
    (whole, events)
}

fn check(whole: &str, events: &[(Instant, EventKind, Value)]) {
    let chat: Vec<_> = events.iter().filter(|event| event.1 == EventKind::Chat).collect();
    let (end, deltas) = chat.split_last().expect("an end");
    assert!(!is_chat(end, "delta"), "the end comes last");
    assert!(deltas.iter().all(|event| is_chat(event, "delta")), "one end");
    for pair in deltas.windows(2) {
        let (before, after) = (text(&pair[0].2), text(&pair[1].2));
        assert!(after.starts_with(&before) && after.len() > before.len(), "{before:?} {after:?}");
    }
    if let Some(last) = deltas.last() {
        assert!(whole.starts_with(&text(&last.2)));
    }
    if end.2["state"] == "final" {
        assert_eq!(text(&end.2), whole);
        let is_shown = deltas.last().map_or(whole.is_empty(), |last| text(&last.2) == whole);
        assert!(is_shown, "what was held back is sent before the end");
    }
    // Two deltas are 150 ms apart, unless a tool or the end came between.
    let mut last: Option<Instant> = None;
    for (index, event) in events.iter().enumerate() {
        if !is_chat(event, "delta") {
            continue;
        }
        let next = &events[index + 1];
        let is_flush = is_chat(next, "final") || next.2["stream"] == "tool";
        let is_paced = last.is_none_or(|last| event.0 - last >= DELTA_EVERY);
        assert!(is_paced || is_flush, "{events:#?}");
        last = Some(event.0);
    }
    for pair in
        events.iter().filter(|event| event.1 == EventKind::Agent).collect::<Vec<_>>().windows(2)
    {
        assert!(pair[1].2["seq"].as_u64() > pair[0].2["seq"].as_u64(), "seq grows");
    }
}

proptest! {
    #[test]
    fn deltas_keep_their_pace_and_nothing_follows_the_end(
        steps in proptest::collection::vec(step(), 0..40),
        ending in prop_oneof![Just(Ending::Answer), Just(Ending::Abort), Just(Ending::Failure)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (whole, events) = runtime.block_on(play(steps, ending));
        check(&whole, &events);
    }
}

fn said(pieces: &[&str]) -> (Vec<String>, Value) {
    let (mut emitter, recorder) = emitter();
    emitter.start();
    for piece in pieces {
        emitter.text(piece);
    }
    emitter.finish(&Usage::default(), StopReason::Stop);
    let events = std::mem::take(&mut *recorder.0.lock());
    let deltas = events.iter().filter(|event| is_chat(event, "delta"));
    let deltas = deltas.map(|event| text(&event.2)).collect();
    (deltas, events.last().unwrap().2["message"].clone())
}

#[tokio::test]
async fn a_silent_answer_is_never_shown_and_a_tool_is_told_with_its_words() {
    assert_eq!(said(&["NO", "_REP", "LY"]), (vec![], Value::Null));
    assert_eq!(said(&["<think>x</think>", "NO_REPLY"]), (vec![], Value::Null));
    let (deltas, last) = said(&["NO_REPLY", " but"]);
    assert_eq!(
        (deltas, &last["content"][0]["text"]),
        (vec!["NO_REPLY but".into()], &json!("NO_REPLY but"))
    );
    let (mut emitter, recorder) = emitter();
    let row = Map::from_iter([("status".to_owned(), json!("running"))]);
    emitter.tool_start(&card("read", Some("from n")), &row);
    let events = recorder.0.lock();
    let (tool, item) = (&events[0].2, &events[2].2);
    assert_eq!((&tool["stream"], &tool["status"]), (&json!("tool"), &json!("running")));
    assert_eq!((events[1].1, &events[1].2), (EventKind::SessionTool, tool));
    assert_eq!(
        (&item["data"]["title"], &item["data"]["meta"]),
        (&json!("read from n"), &json!("from n"))
    );
    assert!(item.get("status").is_none(), "cards come without the row");
}

#[tokio::test]
async fn a_thought_that_is_cut_or_interrupted_by_a_tool_is_not_told() {
    for (stop_reason, calls, whole) in [
        (StopReason::Stop, false, "Sure. <think>private"),
        (StopReason::Length, false, "Sure."),
        (StopReason::ToolUse, true, "Sure."),
    ] {
        let (mut emitter, recorder) = emitter();
        emitter.text("Sure. <think>private");
        if calls {
            emitter.tool_start(&card("read", None), &Map::new());
        }
        emitter.finish(&Usage::default(), stop_reason);
        assert_eq!(emitter.whole_text(), whole, "{stop_reason:?}");
        let told = recorder.0.lock().iter().any(|event| event.2.to_string().contains("private"));
        assert_eq!(told, stop_reason == StopReason::Stop, "{stop_reason:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_text_is_told_in_pieces_that_are_worth_it_and_to_its_end() {
    const WHOLE: usize = 1024 * 1024;
    let piece = "x".repeat(512);
    for ending in [Ending::Answer, Ending::Abort, Ending::Failure] {
        let steps = vec![Step::Says(piece.clone()); WHOLE / piece.len()];
        let (whole, events) = play(steps, ending).await;
        let is_text = |event: &&(Instant, EventKind, Value)| event.2["stream"] == "assistant";
        let member = |name: &str| -> Vec<String> {
            let all = events.iter().filter(is_text);
            all.map(|event| event.2["data"][name].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!((member("delta").concat(), whole.len()), (whole, WHOLE), "{ending:?}");
        let written: usize = member("text").iter().map(String::len).sum();
        assert!(written < 14 * WHOLE, "{ending:?}: {written} bytes");
    }
}

/// Bytes of text that all events of one stream have, and how many of these there are.
fn cost(events: &[(Instant, EventKind, Value)]) -> (usize, usize) {
    let texts = events.iter().filter_map(|event| event.2["data"]["text"].as_str());
    texts.fold((0, 0), |(bytes, count), text| (bytes + text.len(), count + 1))
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_a_burst_of_small_pieces_costs_its_readers_little() {
    let steps = vec![Step::Says("eight by".into()); 8000];
    let (whole, events) = play(steps, Ending::Answer).await;
    let (bytes, _) = cost(&events);
    assert!(bytes < 5 * 1024 * 1024, "{bytes} bytes for {}", whole.len());
}

#[tokio::test(start_paused = true)]
async fn a_text_that_comes_at_its_time_is_told_piece_by_piece() {
    // A hundred pieces a second.
    let spoken = [Step::Says("eight by".into()), Step::Waits(10)];
    let steps = spoken.iter().cycle().take(2 * 1000).cloned().collect();
    assert_eq!(cost(&play(steps, Ending::Answer).await.1).1, 1000);
}

#[tokio::test]
async fn who_tells_the_end_for_an_emitter_that_is_gone_counts_on() {
    let (mut broken, recorder) = emitter();
    broken.start();
    broken.text("one two");
    let (run, bus) = (Arc::clone(&broken.run), broken.bus.clone());
    drop(broken);
    Emitter::new(run, bus, Feed::default(), Arc::new(SystemClock)).fail("no", "unknown");
    let events = recorder.0.lock();
    let all = events.iter().filter(|event| event.1 == EventKind::Agent);
    let seqs: Vec<_> = all.map(|event| event.2["seq"].as_u64().unwrap()).collect();
    assert!(seqs.len() > 1 && seqs.is_sorted_by(|one, next| one < next), "{seqs:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_said_in_the_place_of_a_longer_text_is_told_before_a_tool() {
    let (mut emitter, recorder) = emitter();
    emitter.text("what a model says that fails then");
    emitter.forget_turn();
    emitter.text("another");
    call(&mut emitter);
    let events = recorder.0.lock();
    let last = events.iter().rfind(|event| is_chat(event, "delta")).unwrap();
    assert_eq!(text(&last.2), "another");
}

#[tokio::test]
async fn a_node_that_follows_the_session_gets_each_event_once_and_calls_where_it_is_verbose() {
    let hub = Arc::new(Hub::default());
    let principal = Arc::new(Principal::for_tests(Role::Node, &[]));
    let node = Arc::new(Subscriber::new("n".into(), principal, &["tool-events".into()]));
    hub.join(Arc::clone(&node));
    let (run, bus) = (run("r", "main"), Bus::new(LocalBackplane(hub)));
    let key = run.key.clone();
    let mut emitter = Emitter::new(run, bus, Feed::default(), Arc::new(SystemClock));
    emitter.start();
    assert!(!emitter.has_tool_watchers());
    assert!(node.watch_messages(key, true));
    assert!(emitter.has_tool_watchers());
    for level in ["off", "on", "full"] {
        let row = Map::from_iter([("verboseLevel".to_owned(), json!(level))]);
        let card = card("t", None);
        emitter.tool_start(&card, &row);
        emitter.tool_end(&card, &row, &ToolOutput::text("done"));
    }
    let Batch::Items(items) = node.outbox.take() else { panic!("nothing is told") };
    let told = items.into_iter().map(|item| match item {
        Item::Event(event) => serde_json::from_str::<Value>(event.payload()).unwrap(),
        other => panic!("{other:?}"),
    });
    let told: Vec<_> =
        told.map(|it| (it["stream"].clone(), it["data"]["result"].clone())).collect();
    let (item, begins) = ((json!("item"), Value::Null), (json!("tool"), Value::Null));
    let ends = (json!("tool"), ToolOutput::text("done").to_wire());
    let calls = [&item, &item, &begins, &item, &begins, &item, &begins, &item, &ends, &item];
    assert_eq!(told.iter().collect::<Vec<_>>(), calls);
}
