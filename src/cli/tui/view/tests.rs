//! What is on the screen, at several sizes.

use std::fmt::Write as _;
use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::Value;

use super::{Turn, View};
use crate::cli::client::Event as GatewayEvent;
use crate::cli::tui::state::{Ask, Event, Setup, State};
use crate::cli::tui::text::Theme;
use crate::support::{RandomIds, json};

const NOW: u64 = 1_800_000_000_000;
const THEME: Theme = Theme { has_colour: true };

fn state_of(messages: &Value) -> State {
    let setup =
        Setup { url: "ws://127.0.0.1:18789".into(), history_limit: 1000, ..Setup::default() };
    let mut state = State::new(setup, Arc::new(RandomIds), NOW);
    state.update(Event::Up(json!({})), NOW);
    load(&mut state, messages);
    state
}

fn load(state: &mut State, messages: &Value) {
    let ask = Ask::History(state.place.session.clone(), Vec::new());
    state.update(Event::Answer { ask, result: Ok(json!({"messages": messages})) }, NOW);
    let row = json!({"sessions": [{"key": "agent:main:main", "modelProvider": "mock", "model": "mock-1",
        "thinkingLevel": "low", "totalTokens": 12_300, "contextTokens": 200_000}]});
    state.update(Event::Answer { ask: Ask::Row("agent:main:main".into()), result: Ok(row) }, NOW);
}

fn said(role: &str, id: usize, text: &str) -> Value {
    json!({"role": role, "content": text, "__openclaw": {"id": id.to_string()}})
}

struct Screen {
    terminal: Terminal<TestBackend>,
    view: View,
}

impl Screen {
    fn new(columns: u16, rows: u16) -> Self {
        let terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        Self { terminal, view: View::new(THEME) }
    }

    fn draw(&mut self, state: &State) -> Vec<String> {
        let view = &mut self.view;
        self.terminal
            .draw(|frame| {
                let area = frame.area();
                if let Some(cursor) = view.draw(state, area, frame.buffer_mut()) {
                    frame.set_cursor_position(cursor);
                }
            })
            .unwrap();
        let buffer = self.terminal.backend().buffer();
        let row = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..buffer.area.height).map(|y| row(y).trim_end().to_owned()).collect()
    }
}

fn drawn(state: &State, columns: u16, rows: u16) -> Vec<String> {
    Screen::new(columns, rows).draw(state)
}

#[test]
fn everything_has_its_place() {
    let mut state = state_of(&json!([
        said("user", 1, "How are you?"),
        {"role": "assistant", "__openclaw": {"id": "2"}, "usage": {"input": 1500, "output": 20, "cost": {"total": 0.01}},
            "content": [{"type": "text", "text": "**Fine**."}, {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "n"}}]},
        {"role": "toolResult", "toolCallId": "c", "content": "a\nb"},
    ]));
    state.update(Event::Paste("next\nline".into()), NOW);
    let rows = drawn(&state, 90, 12);
    assert_eq!(
        rows,
        [
            "main · main · mock/mock-1 · think low · ↑1.5k ↓20 $0.0100 · 12.3k/200k         ● connected",
            "",
            "› How are you?",
            "",
            "Fine.",
            "✓ read path=n 2 lines",
            "",
            "",
            "",
            "ready                                                                                /help",
            "> next",
            "  line",
        ]
    );
}

#[test]
fn a_small_screen_shows_what_matters() {
    let mut state =
        state_of(&json!([said("user", 1, "one two three four five six seven eight nine")]));
    let rows = drawn(&state, 40, 12);
    assert_eq!(rows[0], "main · main · mock/mock-1 · think low  ●");
    assert_eq!(rows[1..4], ["", "› one two three four five six seven", "  eight nine"]);
    state.update(Event::Paste("x\n".repeat(30)), NOW);
    let rows = drawn(&state, 40, 12);
    assert_eq!(
        rows[7], "ready                              /help",
        "the input takes a third at most"
    );
    for (columns, height) in [(1, 1), (3, 9), (4, 3), (5, 4), (10, 2), (12, 5)] {
        drawn(&state, columns, height);
    }
}

#[test]
fn overlays_fit_whatever_the_size_is() {
    let mut state = state_of(&json!([]));
    let question = json!({"id": "q", "createdAtMs": 0, "expiresAtMs": 90_000, "request": {
        "command": format!("first\n{}\u{1b}[2Jlast", "middle\n".repeat(40)), "cwd": "/work", "host": "gateway",
        "warningText": "It sets:\nX='1'"}});
    let event =
        GatewayEvent { name: "exec.approval.requested".into(), payload: question, seq: None };
    state.update(Event::Gateway(event), NOW);
    let rows = drawn(&state, 40, 12).join("\n");
    for part in [
        "May this run? · expires in 1m 30s",
        "│ first",
        "in /work",
        "lines above",
        "[Deny]",
        "Allow once",
        "Always",
    ] {
        assert!(rows.contains(part), "{part} in\n{rows}");
    }
    for _ in 0..50 {
        let down =
            ratatui::crossterm::event::KeyEvent::from(ratatui::crossterm::event::KeyCode::Down);
        state.update(Event::Key(down), NOW);
    }
    let rows = drawn(&state, 40, 12).join("\n");
    for part in ["\\u{1b}[2Jlast", "It sets:", "X='1'", "0 below"] {
        assert!(rows.contains(part), "{part} in\n{rows}");
    }
    for (columns, height) in [(4, 3), (6, 5), (20, 6), (200, 60)] {
        drawn(&state, columns, height);
    }
}

#[test]
fn what_is_wide_is_measured_so() {
    let state = state_of(&json!([said("assistant", 1, "漢字漢字 👩‍👩‍👧 x")]));
    let mut screen = Screen::new(20, 8);
    screen.draw(&state);
    let buffer = screen.terminal.backend().buffer();
    assert_eq!(buffer[(0, 2)].symbol(), "漢");
    assert_eq!(buffer[(9, 2)].symbol(), "👩‍👩‍👧");
    assert_eq!(buffer[(12, 2)].symbol(), "x");
}

/// A conversation of many lines.
fn long() -> State {
    let text = |at: usize| {
        let mut text = String::new();
        for line in 0..10 {
            writeln!(text, "- line {line} of message {at}").unwrap();
        }
        text
    };
    let messages: Vec<Value> = (0..1000).map(|at| said("assistant", at, &text(at))).collect();
    state_of(&json!(messages))
}

#[test]
fn only_what_is_seen_is_laid_out() {
    let mut state = long();
    let mut screen = Screen::new(80, 40);
    assert!(screen.draw(&state).join("\n").contains("line 9 of message 999"));
    assert!(screen.view.scroll.work() < 10, "{}", screen.view.scroll.work());
    for _ in 0..100 {
        screen.view.turn(Turn::Lines(-3));
        screen.draw(&state);
    }
    assert!(screen.view.scroll.work() < 50, "{}", screen.view.scroll.work());
    let before = screen.view.scroll.work();
    screen.view.turn(Turn::Top);
    let rows = screen.draw(&state);
    assert_eq!(rows[2], "• line 0 of message 0");
    assert!(rows[38].contains("more below"), "{}", rows[38]);
    assert!(screen.view.scroll.work() < before + 10);
    state.update(Event::Tick, NOW);
    let before = screen.view.scroll.work();
    screen.draw(&state);
    assert_eq!(screen.view.scroll.work(), before, "nothing has changed");
}

#[test]
fn what_is_read_stays_while_more_is_said() {
    let mut state = long();
    let mut screen = Screen::new(80, 20);
    screen.draw(&state);
    screen.view.turn(Turn::Pages(-3));
    let before = screen.draw(&state);
    let payload = json!({"runId": "r", "sessionKey": "agent:main:main", "stream": "assistant",
        "data": {"text": "new\n\n".repeat(50), "delta": "x"}});
    let event = GatewayEvent { name: "agent".into(), payload, seq: None };
    state.update(Event::Gateway(event), NOW);
    let after = screen.draw(&state);
    assert_eq!(before[1..17], after[1..17]);
    screen.view.turn(Turn::Pages(99));
    assert!(screen.draw(&state)[17].contains("new"));
    screen.view.turn(Turn::Pages(-1));
    screen.draw(&state);
    screen.view.turn(Turn::Bottom);
    assert!(screen.draw(&state)[17].contains("new"));
}
