//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::picker::Kind;
use super::{Ask, EXIT_WITHIN_MS, Effect, Overlay, State};
use crate::cli::tui::editor::Move;
use crate::support::json;

/// Lines of a list that a page key goes.
const PAGE: isize = 10;

/// What a key is, without what makes no difference.
struct Pressed {
    code: KeyCode,
    has_ctrl: bool,
    has_alt: bool,
    has_shift: bool,
}

impl Pressed {
    fn new(key: KeyEvent) -> Self {
        let has = |modifier| key.modifiers.contains(modifier);
        // Of Ctrl and a letter, terminals tell the letter in either case.
        let has_ctrl = has(KeyModifiers::CONTROL);
        let code = match key.code {
            KeyCode::Char(letter) if has_ctrl => KeyCode::Char(letter.to_ascii_lowercase()),
            code => code,
        };
        Self {
            code,
            has_ctrl,
            has_alt: has(KeyModifiers::ALT),
            has_shift: has(KeyModifiers::SHIFT),
        }
    }

    fn is_ctrl(&self, letter: char) -> bool {
        self.has_ctrl && self.code == KeyCode::Char(letter)
    }
}

impl State {
    pub(super) fn key(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let key = Pressed::new(key);
        if !key.is_ctrl('c') {
            self.exit_until = 0;
        }
        if key.is_ctrl('z') {
            self.do_it(Effect::Suspend);
        } else if key.is_ctrl('d') && self.editor.is_empty() {
            self.do_it(Effect::Quit);
        } else if self.approvals.shown().is_some() {
            self.approval_key(&key);
        } else if self.overlay.is_some() {
            self.overlay_key(&key);
        } else if !self.screen_key(&key) {
            self.editor_key(&key);
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        match &mut self.overlay {
            Some(Overlay::Picker(picker)) => {
                let filter = format!("{}{}", picker.filter, crate::cli::tui::text::one_line(text));
                self.filter(&filter);
            }
            _ if self.approvals.shown().is_some() => {}
            _ => self.insert(text),
        }
    }

    fn insert(&mut self, text: &str) {
        if !self.editor.insert(text) {
            self.fail(
                "that is too long for a message; attach it as a file, or let the agent read it",
            );
        }
    }

    fn interrupt(&mut self) {
        if self.is_leaving() {
            self.do_it(Effect::Quit);
            return;
        }
        self.editor.clear();
        self.exit_until = self.now.saturating_add(EXIT_WITHIN_MS);
    }

    /// Keys that are not about the text; gives whether it was one.
    fn screen_key(&mut self, key: &Pressed) -> bool {
        match key.code {
            KeyCode::Char('c') if key.has_ctrl => self.interrupt(),
            KeyCode::Char('l') if key.has_ctrl => self.open(Kind::Models),
            KeyCode::Char('g') if key.has_ctrl => self.open(Kind::Agents),
            KeyCode::Char('p') if key.has_ctrl => self.open(Kind::Sessions),
            KeyCode::Char('o') if key.has_ctrl => self.toggle("tools"),
            KeyCode::Char('t') if key.has_ctrl => self.toggle("thoughts"),
            KeyCode::Char('r') if key.has_ctrl => self.do_it(Effect::Connect),
            KeyCode::F(1) => self.overlay = Some(Overlay::Help(0)),
            KeyCode::Esc if self.is_busy() => self.abort(),
            KeyCode::Esc => self.do_it(Effect::Bottom),
            KeyCode::PageUp => self.do_it(Effect::Page(-1)),
            KeyCode::PageDown => self.do_it(Effect::Page(1)),
            KeyCode::Up if key.has_shift || key.has_ctrl => self.do_it(Effect::Scroll(-1)),
            KeyCode::Down if key.has_shift || key.has_ctrl => self.do_it(Effect::Scroll(1)),
            KeyCode::Home if key.has_ctrl => self.read_older(),
            KeyCode::End if key.has_ctrl => self.do_it(Effect::Bottom),
            _ => return false,
        }
        true
    }

    fn editor_key(&mut self, key: &Pressed) {
        let editor = &mut self.editor;
        match key.code {
            KeyCode::Enter if key.has_alt || key.has_ctrl || key.has_shift => self.insert("\n"),
            KeyCode::Enter => self.submit(),
            KeyCode::Char('j') if key.has_ctrl => self.insert("\n"),
            KeyCode::Tab => self.complete(),
            KeyCode::Backspace if key.has_alt || key.has_ctrl => editor.delete(Move::WordLeft),
            KeyCode::Char('w') if key.has_ctrl => editor.delete(Move::WordLeft),
            KeyCode::Backspace => editor.delete(Move::Left),
            KeyCode::Char('h') if key.has_ctrl => editor.delete(Move::Left),
            KeyCode::Delete => editor.delete(Move::Right),
            KeyCode::Char('d') if key.has_ctrl => editor.delete(Move::Right),
            KeyCode::Char('d') if key.has_alt => editor.delete(Move::WordRight),
            KeyCode::Char('u') if key.has_ctrl => editor.delete(Move::Home),
            KeyCode::Char('k') if key.has_ctrl => editor.delete(Move::End),
            KeyCode::Char('y') if key.has_ctrl => editor.paste_cut(),
            KeyCode::Left if key.has_alt || key.has_ctrl => editor.go(Move::WordLeft),
            KeyCode::Right if key.has_alt || key.has_ctrl => editor.go(Move::WordRight),
            KeyCode::Char('b') if key.has_alt => editor.go(Move::WordLeft),
            KeyCode::Char('f') if key.has_alt => editor.go(Move::WordRight),
            KeyCode::Left => editor.go(Move::Left),
            KeyCode::Right => editor.go(Move::Right),
            KeyCode::Char('b') if key.has_ctrl => editor.go(Move::Left),
            KeyCode::Char('f') if key.has_ctrl => editor.go(Move::Right),
            KeyCode::Home => editor.go(Move::Home),
            KeyCode::Char('a') if key.has_ctrl => editor.go(Move::Home),
            KeyCode::End => editor.go(Move::End),
            KeyCode::Char('e') if key.has_ctrl => editor.go(Move::End),
            KeyCode::Up => editor.up(),
            KeyCode::Down => editor.down(),
            KeyCode::Char(letter) if !key.has_ctrl && !key.has_alt => {
                self.insert(letter.encode_utf8(&mut [0; 4]));
            }
            _ => {}
        }
    }

    fn overlay_key(&mut self, key: &Pressed) {
        if key.is_ctrl('c') {
            self.overlay = None;
            return;
        }
        match &mut self.overlay {
            Some(Overlay::Help(top)) => match key.code {
                KeyCode::Up => *top = top.saturating_sub(1),
                KeyCode::Down => *top = top.saturating_add(1),
                KeyCode::PageUp => *top = top.saturating_sub(PAGE.unsigned_abs()),
                KeyCode::PageDown => *top = top.saturating_add(PAGE.unsigned_abs()),
                _ => self.overlay = None,
            },
            Some(Overlay::Picker(_)) => self.picker_key(key),
            None => {}
        }
    }

    fn picker_key(&mut self, key: &Pressed) {
        let Some(Overlay::Picker(picker)) = &mut self.overlay else { return };
        let filter = picker.filter.clone();
        match key.code {
            KeyCode::Esc if filter.is_empty() => self.overlay = None,
            KeyCode::Esc => self.filter(""),
            KeyCode::Enter => self.choose(),
            KeyCode::Char('n') if key.has_ctrl && picker.kind == Kind::Sessions => {
                self.overlay = None;
                self.create();
            }
            KeyCode::Up => picker.step(-1),
            KeyCode::Down | KeyCode::Tab => picker.step(1),
            KeyCode::PageUp => picker.step(-PAGE),
            KeyCode::PageDown => picker.step(PAGE),
            KeyCode::Home => picker.step(isize::MIN),
            KeyCode::End => picker.step(isize::MAX),
            KeyCode::Backspace => {
                let mut filter = filter;
                filter.pop();
                self.filter(&filter);
            }
            KeyCode::Char(letter) if !key.has_ctrl && !key.has_alt => {
                self.filter(&format!("{filter}{letter}"));
            }
            _ => {}
        }
    }

    fn filter(&mut self, filter: &str) {
        let Some(Overlay::Picker(picker)) = &mut self.overlay else { return };
        picker.search(filter);
        if picker.kind == Kind::Sessions && picker.has_more {
            let search = filter.trim().to_owned();
            self.search_sessions(&search);
        }
    }

    fn approval_key(&mut self, key: &Pressed) {
        let is_armed = self.approvals.is_armed(self.now);
        match key.code {
            KeyCode::Esc => self.approvals.hide(),
            KeyCode::Char('c') if key.has_ctrl => self.approvals.hide(),
            KeyCode::Left | KeyCode::BackTab => self.approvals.step(-1),
            KeyCode::Right | KeyCode::Tab => self.approvals.step(1),
            KeyCode::Up => self.approvals.scroll = self.approvals.scroll.saturating_sub(1),
            KeyCode::Down => self.approvals.scroll = self.approvals.scroll.saturating_add(1),
            KeyCode::Enter if is_armed => self.decide(),
            _ => {}
        }
    }

    fn decide(&mut self) {
        let Some((question, decision)) = self.approvals.shown().zip(self.approvals.choice()) else {
            return;
        };
        let id = question.id.clone();
        let params = json!({"id": id, "decision": decision.as_str()});
        self.ask(Ask::Decide(id, decision), "exec.approval.resolve", params);
    }
}
