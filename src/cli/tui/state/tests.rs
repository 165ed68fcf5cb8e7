//! What keys, events and answers lead to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use super::{Ask, Decision, Effect, Event, Link, Overlay, Setup, State};
use crate::cli::client::Event as GatewayEvent;
use crate::cli::tui::transcript::Body;
use crate::support::{Ids, json};

const NOW: u64 = 1_800_000_000_000;

#[derive(Default)]
struct Counted(AtomicU64);

impl Ids for Counted {
    fn uuid(&self) -> String {
        format!("k{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn offline() -> State {
    let setup = Setup { url: "ws://gw".into(), history_limit: 3, ..Setup::default() };
    State::new(setup, Arc::new(Counted::default()), NOW)
}

/// Connected, with the history read.
fn online() -> State {
    let mut state = offline();
    state.update(Event::Up(json!({})), NOW);
    history(&mut state, &json!([]), &[]);
    state
}

fn history(state: &mut State, messages: &Value, covers: &[&str]) -> Vec<Effect> {
    let covers = covers.iter().map(|key| (*key).to_owned()).collect();
    let ask = Ask::History(state.place.session.clone(), covers);
    state.update(Event::Answer { ask, result: Ok(json!({"messages": messages})) }, NOW)
}

fn press(state: &mut State, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
    state.update(Event::Key(KeyEvent::new(code, modifiers)), NOW)
}

fn ctrl(state: &mut State, letter: char) -> Vec<Effect> {
    press(state, KeyCode::Char(letter), KeyModifiers::CONTROL)
}

fn plain(state: &mut State, code: KeyCode) -> Vec<Effect> {
    press(state, code, KeyModifiers::NONE)
}

fn say(state: &mut State, text: &str) -> Vec<Effect> {
    state.update(Event::Paste(text.to_owned()), NOW);
    plain(state, KeyCode::Enter)
}

fn event(state: &mut State, name: &str, payload: Value) -> Vec<Effect> {
    let event = GatewayEvent { name: name.to_owned(), payload, seq: None };
    state.update(Event::Gateway(event), NOW)
}

fn answer(state: &mut State, ask: Ask, payload: Value) -> Vec<Effect> {
    state.update(Event::Answer { ask, result: Ok(payload) }, NOW)
}

fn started(state: &mut State, key: &str) -> Vec<Effect> {
    answer(state, Ask::Send(key.into()), json!({"runId": key, "status": "started"}))
}

fn ended(state: &mut State, run: &str) -> Vec<Effect> {
    let end = json!({"runId": run, "sessionKey": "agent:main:main", "state": "final"});
    event(state, "chat", end)
}

/// The history that is asked for.
fn reading(effects: &[Effect]) -> Ask {
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::Request(ask @ Ask::History(..), ..) => Some(ask.clone()),
        _ => None,
    });
    asked.expect("no history is asked for")
}

fn methods(effects: &[Effect]) -> Vec<(&str, &Value)> {
    let requests = effects.iter().filter_map(|effect| match effect {
        Effect::Request(_, method, params) => Some((*method, params)),
        _ => None,
    });
    requests.collect()
}

fn notices(state: &State) -> Vec<&str> {
    let entries = state.transcript.entries().iter();
    let notices = entries.filter_map(|entry| match &entry.body {
        Body::Notice { text, .. } => Some(text.as_str()),
        _ => None,
    });
    notices.collect()
}

#[test]
fn a_connection_is_followed_and_the_session_is_read() {
    let mut state = offline();
    let effects = state.update(Event::Up(json!({})), NOW);
    let asked: Vec<_> = methods(&effects).into_iter().map(|(method, _)| method).collect();
    assert_eq!(
        asked,
        [
            "sessions.subscribe",
            "exec.approval.list",
            "commands.list",
            "chat.history",
            "sessions.list"
        ]
    );
    let history = methods(&effects)[3].1;
    let expected = json!({"sessionKey": "agent:main:main", "limit": 3, "maxChars": 500_000});
    assert_eq!(*history, expected);
}

#[test]
fn a_message_is_sent_once_and_again_after_a_lost_connection() {
    let mut state = online();
    let sent = say(&mut state, "hello");
    let expected =
        json!({"sessionKey": "agent:main:main", "message": "hello", "idempotencyKey": "k0"});
    assert_eq!(methods(&sent), [("chat.send", &expected)]);
    state.update(Event::Down { why: "gone".into(), retry_ms: 500 }, NOW);
    let offline = say(&mut state, "more");
    assert!(methods(&offline).is_empty());
    let effects = state.update(Event::Up(json!({})), NOW);
    let keys: Vec<_> = methods(&effects)
        .into_iter()
        .filter(|(method, _)| *method == "chat.send")
        .map(|(_, params)| params["idempotencyKey"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["k0", "k1"]);
    for key in ["k0", "k1"] {
        answer(&mut state, Ask::Send(key.into()), json!({"runId": key, "status": "started"}));
    }
    state.update(Event::Down { why: "gone".into(), retry_ms: 500 }, NOW);
    let effects = state.update(Event::Up(json!({})), NOW);
    assert!(methods(&effects).iter().all(|(method, _)| *method != "chat.send"));
}

#[test]
fn what_is_refused_comes_back_to_be_changed() {
    let mut state = online();
    say(&mut state, "hello");
    let answered = |result| Event::Answer { ask: Ask::Send("k0".into()), result };
    assert_eq!(state.refused_by(&answered(Ok(json!({})))), None);
    let refusal = answered(Err("send policy denies it".to_owned()));
    // For who has left.
    let told = state.refused_by(&refusal);
    assert_eq!(told.as_deref(), Some("hello (send policy denies it)"));
    state.update(refusal, NOW);
    assert_eq!(state.editor.text(), "hello");
    assert_eq!(notices(&state), ["send policy denies it"]);
}

#[test]
fn what_becomes_of_a_message_of_another_session_changes_nothing_of_this_one() {
    let mut state = online();
    say(&mut state, "one");
    say(&mut state, "two");
    say(&mut state, "/session notes");
    history(&mut state, &json!([]), &[]);
    let started = json!({"runId": "k0", "status": "started"});
    answer(&mut state, Ask::Send("k0".into()), started);
    assert!(!state.is_busy(), "nothing runs here");
    let result = Err("send policy denies it".to_owned());
    state.update(Event::Answer { ask: Ask::Send("k1".into()), result }, NOW);
    assert_eq!((state.editor.text(), state.waiting()), ("", 0));
    assert_eq!(notices(&state), ["main: send policy denies it; not said there: two"]);
}

#[test]
fn a_history_that_may_be_old_is_read_again() {
    let mut state = online();
    assert_eq!(methods(&state.update(Event::Gap, NOW)).len(), 1);
    assert!(methods(&state.update(Event::Gap, NOW)).is_empty(), "one at a time");
    let effects = history(&mut state, &json!([]), &[]);
    assert_eq!(methods(&effects)[0].0, "chat.history");
    event(
        &mut state,
        "agent",
        json!({"runId": "r", "sessionKey": "agent:main:main", "stream": "tool",
        "data": {"phase": "start", "toolCallId": "c", "name": "read"}}),
    );
    assert_eq!(methods(&history(&mut state, &json!([]), &[])).len(), 1);
    assert!(methods(&history(&mut state, &json!([]), &[])).is_empty());
}

#[test]
fn a_run_that_a_crash_has_ended_is_not_waited_for_after_the_next_one() {
    for active_at_last in [json!(null), json!({"runId": "k1"})] {
        let mut state = online();
        say(&mut state, "one");
        started(&mut state, "k0");
        state.update(Event::Down { why: "gone".into(), retry_ms: 500 }, NOW);
        say(&mut state, "two");
        let ask = reading(&state.update(Event::Up(json!({})), NOW));
        started(&mut state, "k1");
        // What runs already hides that nothing else does.
        answer(&mut state, ask, json!({"messages": [], "activeRun": {"runId": "k1"}}));
        assert!(state.is_busy());
        // The gateway may forget a run only after it has told its end.
        let ask = reading(&ended(&mut state, "k1"));
        answer(&mut state, ask, json!({"messages": [], "activeRun": active_at_last}));
        assert!(!state.is_busy(), "{active_at_last}");
    }
}

#[test]
fn a_run_that_ended_while_there_was_no_connection_is_not_waited_for() {
    let mut state = online();
    say(&mut state, "one");
    started(&mut state, "k0");
    let ask = reading(&state.update(Event::Gap, NOW));
    answer(&mut state, ask, json!({"messages": [], "activeRun": {"runId": "k0"}}));
    state.update(Event::Down { why: "gone".into(), retry_ms: 500 }, NOW);
    let ask = reading(&state.update(Event::Up(json!({})), NOW));
    answer(&mut state, ask, json!({"messages": []}));
    assert!(!state.is_busy());
}

#[test]
fn a_run_that_ends_before_its_message_is_known_to_be_taken_is_not_waited_for() {
    let mut state = online();
    say(&mut state, "one");
    let ask = reading(&ended(&mut state, "k0"));
    answer(&mut state, ask, json!({"messages": []}));
    let ask = reading(&started(&mut state, "k0"));
    assert_eq!(ask, Ask::History("agent:main:main".into(), vec!["k0".into()]));
    assert!(!state.is_busy());
}

#[test]
fn a_message_whose_turn_comes_next_is_waited_for() {
    let mut state = online();
    for (text, key) in [("one", "k0"), ("two", "k1")] {
        say(&mut state, text);
        started(&mut state, key);
    }
    let ask = reading(&ended(&mut state, "k0"));
    let next =
        json!({"role": "user", "content": "two", "__openclaw": {"id": "b", "pending": true}});
    answer(&mut state, ask, json!({"messages": [next], "activeRun": {"runId": "k0"}}));
    assert!(state.is_busy());
    let ask = reading(&ended(&mut state, "k1"));
    answer(&mut state, ask, json!({"messages": []}));
    assert!(!state.is_busy());
}

#[test]
fn events_of_other_sessions_are_passed_over() {
    let mut state = online();
    let payload = json!({"runId": "r", "sessionKey": "agent:main:other", "stream": "assistant",
        "data": {"text": "x", "delta": "x"}});
    event(&mut state, "agent", payload);
    let end = json!({"runId": "r", "sessionKey": "agent:main:other", "state": "final"});
    assert!(event(&mut state, "chat", end).is_empty());
    assert!(state.transcript.entries().is_empty() && !state.is_busy());
}

#[test]
fn escape_stops_what_runs_and_nothing_else() {
    let mut state = online();
    assert!(methods(&plain(&mut state, KeyCode::Esc)).is_empty());
    event(
        &mut state,
        "agent",
        json!({"runId": "r", "sessionKey": "agent:main:main",
        "stream": "lifecycle", "data": {"phase": "start"}}),
    );
    let effects = plain(&mut state, KeyCode::Esc);
    let expected = json!({"sessionKey": "agent:main:main", "runId": "r"});
    assert_eq!(methods(&effects), [("chat.abort", &expected)]);
}

#[test]
fn ctrl_c_clears_and_leaves_only_when_it_comes_twice_soon() {
    let mut state = online();
    state.update(Event::Paste("draft".into()), NOW);
    assert!(ctrl(&mut state, 'c').is_empty());
    assert_eq!(state.editor.text(), "");
    plain(&mut state, KeyCode::Char('x'));
    assert!(ctrl(&mut state, 'c').is_empty(), "something was typed between");
    state.update(Event::Tick, NOW + 5000);
    let late = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(state.update(late, NOW + 5000).is_empty());
    let soon = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert_eq!(state.update(soon, NOW + 5500), [Effect::Quit]);
    assert_eq!(ctrl(&mut state, 'd'), [Effect::Quit]);
}

#[test]
fn ctrl_d_leaves_nothing_behind_that_was_typed() {
    let mut state = online();
    state.update(Event::Paste("xdraft".into()), NOW);
    assert!(ctrl(&mut state, 'd').is_empty(), "at the end there is nothing to take away");
    plain(&mut state, KeyCode::Home);
    assert!(ctrl(&mut state, 'd').is_empty());
    assert_eq!(state.editor.text(), "draft");
    ctrl(&mut state, 'u');
    ctrl(&mut state, 'k');
    assert_eq!(ctrl(&mut state, 'd'), [Effect::Quit]);
}

#[test]
fn commands_of_the_screen_are_done_here_and_others_are_sent() {
    let mut state = online();
    let one = |effects: Vec<Effect>| methods(&effects)[0].0.to_owned();
    for (line, method) in [
        ("/abort", "chat.abort"),
        ("/new", "sessions.create"),
        ("/reset", "sessions.reset"),
        ("/model a/b", "models.list"),
        ("/model default", "sessions.patch"),
        ("/agent ops", "agents.list"),
        ("/think high", "sessions.patch"),
        ("/models", "models.list"),
        ("/agents", "agents.list"),
        ("/sessions", "sessions.list"),
        ("/session trip", "chat.history"),
        ("/status", "chat.send"),
        ("/verbose on", "chat.send"),
        ("/nobody knows", "chat.send"),
        ("/exit\nis pasted", "chat.send"),
        (" !ls", "chat.send"),
    ] {
        state.overlay = None;
        assert_eq!(one(say(&mut state, line)), method, "{line}");
    }
    assert_eq!(state.place.session, "agent:main:trip");
    assert!(methods(&say(&mut state, "!ls")).is_empty());
    assert_eq!(state.editor.text(), "!ls");
}

#[test]
fn a_choice_is_searched_and_made() {
    let mut state = online();
    ctrl(&mut state, 'l');
    answer(
        &mut state,
        Ask::Models,
        json!({"models": [
            {"provider": "a", "id": "one", "name": "One"}, {"provider": "b", "id": "two", "name": "Two"},
        ]}),
    );
    for letter in "two".chars() {
        plain(&mut state, KeyCode::Char(letter));
    }
    let effects = plain(&mut state, KeyCode::Enter);
    let expected = json!({"key": "agent:main:main", "model": "b/two"});
    assert_eq!(methods(&effects), [("sessions.patch", &expected)]);
    assert_eq!(state.overlay, None);
    ctrl(&mut state, 'p');
    plain(&mut state, KeyCode::Char('x'));
    plain(&mut state, KeyCode::Esc);
    assert!(matches!(&state.overlay, Some(Overlay::Picker(picker)) if picker.filter.is_empty()));
    plain(&mut state, KeyCode::Esc);
    assert_eq!(state.overlay, None);
}

#[test]
fn a_model_or_an_agent_that_is_not_there_is_refused_with_those_that_are() {
    let mut state = online();
    let model = |name: &str| Ask::Model("agent:main:main".into(), name.into());
    let models = json!({"models": [{"provider": "a", "id": "One", "alias": "first"},
        {"provider": "b", "id": "two"}]});
    let open = "openrouter/some/new";
    let named = [("A/one", "a/One"), ("First", "a/One"), ("two", "b/two")];
    for (name, full) in named.into_iter().chain([("B/new", "b/new"), (open, open)]) {
        let effects = answer(&mut state, model(name), models.clone());
        let expected = json!({"key": "agent:main:main", "model": full});
        assert_eq!(methods(&effects), [("sessions.patch", &expected)], "{name}");
    }
    for name in ["nonsense/x", "b/", "openrouter/x"] {
        assert!(methods(&answer(&mut state, model(name), models.clone())).is_empty(), "{name}");
    }
    let agents = || json!({"agents": [{"id": "main"}, {"id": "ops"}]});
    assert!(methods(&answer(&mut state, Ask::Agent("nobody".into()), agents())).is_empty());
    assert_eq!(
        notices(&state),
        [
            "b/new is in no list; its provider is asked for it",
            "openrouter/some/new is in no list; its provider is asked for it",
            "there is no model \"nonsense/x\"; there are a/One, b/two (/models shows all)",
            "there is no model \"b/\"; there are a/One, b/two (/models shows all)",
            "there is no model \"openrouter/x\"; there are a/One, b/two (/models shows all)",
            "there is no agent \"nobody\"; there are main, ops"
        ]
    );
    assert_eq!(state.place.session, "agent:main:main");
    answer(&mut state, Ask::Agent("Ops".into()), agents());
    assert_eq!(state.place.session, "agent:ops:main");
}

#[test]
fn settings_are_switched_while_they_are_open() {
    let mut state = online();
    say(&mut state, "/settings");
    plain(&mut state, KeyCode::Enter);
    assert!(state.shows_tools);
    plain(&mut state, KeyCode::Down);
    plain(&mut state, KeyCode::Enter);
    assert!(state.shows_thoughts && state.overlay.is_some());
}

fn asked(state: &mut State) {
    event(
        state,
        "exec.approval.requested",
        json!({"id": "q", "createdAtMs": 5, "expiresAtMs": 60_005,
        "request": {"command": "ls", "cwd": "/w", "allowedDecisions": ["allow-once", "allow-always", "deny"]}}),
    );
}

#[test]
fn a_question_is_decided_on_purpose_only() {
    let mut state = online();
    state.update(Event::Paste("typing".into()), NOW);
    asked(&mut state);
    for key in [KeyCode::Enter, KeyCode::Char('y'), KeyCode::Char('a')] {
        assert!(plain(&mut state, key).is_empty(), "{key:?} comes too early or means nothing");
    }
    assert_eq!(state.editor.text(), "typing");
    state.update(Event::Tick, NOW + 1000);
    let key = |code| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    state.update(key(KeyCode::Right), NOW + 1000);
    let effects = state.update(key(KeyCode::Enter), NOW + 1000);
    let expected = json!({"id": "q", "decision": "allow-once"});
    assert_eq!(methods(&effects), [("exec.approval.resolve", &expected)]);
    answer(&mut state, Ask::Decide("q".into(), Decision::AllowOnce), json!({"ok": true}));
    event(&mut state, "exec.approval.resolved", json!({"id": "q", "decision": "allow-once"}));
    assert_eq!(notices(&state), ["allow-once: ls"]);
    assert_eq!(state.approvals.len(), 0);
}

#[test]
fn a_question_that_nobody_answers_goes_and_is_told() {
    let mut state = online();
    asked(&mut state);
    plain(&mut state, KeyCode::Esc);
    assert_eq!((state.approvals.shown(), state.approvals.len()), (None, 1));
    say(&mut state, "/approvals");
    assert!(state.approvals.shown().is_some());
    state.update(Event::Tick, NOW + 60_000);
    assert_eq!(state.approvals.len(), 0);
    assert_eq!(notices(&state), ["nobody decided in time, so this does not run: ls"]);
}

#[test]
fn without_a_connection_it_says_so() {
    let mut state = online();
    state.update(Event::Down { why: "gone".into(), retry_ms: 500 }, NOW);
    assert_eq!(state.link, Link::Down { why: "gone".into(), retry_at: NOW + 500, tries: 1 });
    assert!(methods(&ctrl(&mut state, 'l')).is_empty());
    assert_eq!(state.overlay, None);
    assert!(notices(&state)[1].contains("no connection"));
    assert_eq!(ctrl(&mut state, 'r'), [Effect::Connect]);
}

#[test]
fn older_messages_are_read_at_the_begin_if_there_are_any() {
    let mut state = online();
    assert_eq!(press(&mut state, KeyCode::Home, KeyModifiers::CONTROL), [Effect::Top]);
    let message = json!({"role": "user", "content": "x"});
    history(&mut state, &json!([message, message, message]), &[]);
    let effects = press(&mut state, KeyCode::Home, KeyModifiers::CONTROL);
    assert_eq!(methods(&effects)[0].1["limit"], 1000);
}

#[test]
fn another_session_begins_empty_and_late_answers_are_passed_over() {
    let mut state = online();
    history(&mut state, &json!([{"role": "user", "content": "x"}]), &[]);
    say(&mut state, "/session b");
    assert!(state.transcript.entries().is_empty());
    let ask = Ask::History("agent:main:main".into(), Vec::new());
    answer(&mut state, ask, json!({"messages": [{"role": "user", "content": "late"}]}));
    assert!(state.transcript.entries().is_empty());
}

#[test]
fn how_a_run_ended_is_told_after_its_messages_and_once() {
    let mut state = online();
    event(
        &mut state,
        "chat",
        json!({"runId": "r", "sessionKey": "agent:main:main", "state": "error",
        "errorMessage": "no luck"}),
    );
    let failed = json!([{"role": "assistant", "content": [], "stopReason": "error",
        "errorMessage": "500", "__openclaw": {"id": "a"}}]);
    history(&mut state, &failed, &[]);
    assert_eq!(notices(&state), ["500"]);
    event(
        &mut state,
        "chat",
        json!({"runId": "s", "sessionKey": "agent:main:main", "state": "aborted"}),
    );
    history(&mut state, &failed, &[]);
    assert_eq!(notices(&state), ["500", "the run was stopped"]);
}
