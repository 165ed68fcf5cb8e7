//! The questions on a terminal.
//!
//! Promises: a secret is not shown; Ctrl-C is an answer to every question; what a
//! provider or a file says cannot steer the terminal.

use std::io::{self, Write};

use serde_json::Value;

use super::keys::{Key, Keys};
use crate::cli::screen::harmless;
use crate::support::json;
use crate::wizard::{Answer, Step, StepKind, Stopped, WrongAnswer};

/// Lines of a list that are shown at a time.
const WINDOW: usize = 12;
/// Of a terminal that does not say.
const USUAL_COLUMNS: usize = 80;
/// From the begin of this line to the end of the screen.
const CLEAR: &str = "\r\x1b[J";

/// How what is less and what is more important is shown.
#[derive(Debug, Clone, Copy, Default)]
struct Style {
    dim: &'static str,
    bold: &'static str,
    reset: &'static str,
}

/// With `NO_COLOR` all letters are alike.
const STYLE: Style = Style { dim: "\x1b[2m", bold: "\x1b[1m", reset: "\x1b[0m" };

/// The user's terminal.
pub struct Terminal {
    out: io::Stderr,
    style: Style,
}

impl Terminal {
    /// That of this process.
    pub fn new(has_colour: bool) -> Self {
        let style = if has_colour { STYLE } else { Style::default() };
        Self { out: io::stderr(), style }
    }

    /// Puts the question until it is answered.
    pub fn ask(&mut self, step: &Step) -> Result<Answer, Stopped> {
        self.put(step).map_err(|error| Stopped::Failed(format!("the terminal fails: {error}")))?
    }

    /// Says what is being done.
    pub fn tell(&mut self, text: &str) {
        let Style { dim, reset, .. } = self.style;
        // Who does not see it can still answer.
        let _ = writeln!(self.out, "{dim}{} …{reset}", harmless(text));
    }

    fn put(&mut self, step: &Step) -> io::Result<Result<Answer, Stopped>> {
        loop {
            let value = match step.kind {
                StepKind::Note => {
                    self.note(step)?;
                    Some(Value::Null)
                }
                StepKind::Confirm => self.confirm(step)?,
                StepKind::Select => self.select(step)?,
                StepKind::MultiSelect => self.many(step)?,
                StepKind::Text => self.text(step)?,
            };
            let Some(value) = value else { return Ok(Err(Stopped::cancelled())) };
            match step.read(&value) {
                Ok(answer) => return Ok(Ok(answer)),
                Err(WrongAnswer::Kind(why) | WrongAnswer::Text(why)) => {
                    writeln!(self.out, "  {}", harmless(&why))?;
                }
            }
        }
    }

    fn note(&mut self, step: &Step) -> io::Result<()> {
        let title = step.title.as_deref().unwrap_or_default();
        let Style { bold, reset, .. } = self.style;
        writeln!(self.out, "\n{bold}{title}{reset}")?;
        if step.message.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "{}\n", harmless(&step.message))
    }

    fn confirm(&mut self, step: &Step) -> io::Result<Option<Value>> {
        let usual = step.initial.as_ref().and_then(Value::as_bool).unwrap_or_default();
        let hint = if usual { "Y/n" } else { "y/N" };
        let Style { dim, bold, reset } = self.style;
        write!(self.out, "{bold}{}{reset} {dim}({hint}){reset} ", harmless(&step.message))?;
        self.out.flush()?;
        let mut keys = Keys::new()?;
        let mut said = None;
        // A letter is not the end: its Enter would answer the next question.
        loop {
            let next = match keys.next()? {
                Key::Char('y' | 'Y') => Some(true),
                Key::Char('n' | 'N') => Some(false),
                Key::Backspace | Key::Clear => None,
                Key::Enter => break,
                Key::Stop => {
                    writeln!(self.out)?;
                    return Ok(None);
                }
                _ => continue,
            };
            let back = "\x08 \x08".repeat(said.map_or(0, |yes| word(yes).len()));
            write!(self.out, "{back}{}", next.map_or("", word))?;
            self.out.flush()?;
            said = next;
        }
        let yes = said.unwrap_or(usual);
        writeln!(self.out, "{}", if said.is_none() { word(yes) } else { "" })?;
        Ok(Some(json!(yes)))
    }

    fn text(&mut self, step: &Step) -> io::Result<Option<Value>> {
        let initial = step.initial.as_ref().and_then(Value::as_str).unwrap_or_default();
        let hint = match (step.is_sensitive, initial, &step.placeholder) {
            (true, _, _) => " (not shown)".to_owned(),
            (false, "", Some(example)) => format!(" (such as {example})"),
            (false, "", None) => String::new(),
            (false, usual, _) => format!(" [{usual}]"),
        };
        let Style { dim, bold, reset } = self.style;
        write!(self.out, "{bold}{}{reset}{dim}{hint}{reset}: ", harmless(&step.message))?;
        self.out.flush()?;
        let mut keys = Keys::new()?;
        let mut typed = String::new();
        loop {
            match keys.next()? {
                Key::Char(letter) => {
                    typed.push(letter);
                    self.echo(step, &letter.to_string())?;
                }
                Key::Backspace => {
                    if typed.pop().is_some() {
                        self.echo(step, "\x08 \x08")?;
                    }
                }
                Key::Clear => {
                    let count = typed.chars().count();
                    typed.clear();
                    self.echo(step, &"\x08 \x08".repeat(count))?;
                }
                Key::Enter => break,
                Key::Stop => {
                    writeln!(self.out)?;
                    return Ok(None);
                }
                Key::Up | Key::Down | Key::Other => {}
            }
        }
        writeln!(self.out)?;
        Ok(Some(if typed.is_empty() { json!(initial) } else { json!(typed) }))
    }

    fn echo(&mut self, step: &Step, text: &str) -> io::Result<()> {
        if step.is_sensitive {
            return Ok(());
        }
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn select(&mut self, step: &Step) -> io::Result<Option<Value>> {
        let usual = step.initial.as_ref().and_then(Value::as_str);
        let at = step.options.iter().position(|option| Some(option.value.as_str()) == usual);
        let mut list = List { at: at.unwrap_or_default(), typed: String::new(), chosen: None };
        let Some(()) = self.choose(step, &mut list)? else { return Ok(None) };
        let option = step.options.get(list.at);
        let label = option.map(|option| option.label.as_str()).unwrap_or_default();
        self.out.write_all(chosen_line(&[label]).as_bytes())?;
        Ok(option.map(|option| json!(option.value)))
    }

    fn many(&mut self, step: &Step) -> io::Result<Option<Value>> {
        let chosen = Some(vec![false; step.options.len()]);
        let mut list = List { at: 0, typed: String::new(), chosen };
        let Some(()) = self.choose(step, &mut list)? else { return Ok(None) };
        let marks = list.chosen.unwrap_or_default();
        let chosen = step.options.iter().zip(marks).filter(|(_, is_chosen)| *is_chosen);
        let (labels, values): (Vec<_>, Vec<_>) =
            chosen.map(|(option, _)| (option.label.as_str(), option.value.as_str())).unzip();
        self.out.write_all(chosen_line(&labels).as_bytes())?;
        Ok(Some(json!(values)))
    }

    /// Moves in the list until Enter; `None` for Ctrl-C.
    fn choose(&mut self, step: &Step, list: &mut List) -> io::Result<Option<()>> {
        let help = if list.chosen.is_some() {
            "arrows or numbers, space to choose, Enter"
        } else {
            "arrows or numbers, Enter"
        };
        let Style { dim, bold, reset } = self.style;
        writeln!(self.out, "{bold}{}{reset} {dim}({help}){reset}", harmless(&step.message))?;
        let mut keys = Keys::new()?;
        loop {
            let lines = list.draw(step, columns(), self.style);
            for line in &lines {
                self.out.write_all(line.as_bytes())?;
            }
            self.out.flush()?;
            let key = keys.next()?;
            // Back over the list.
            write!(self.out, "\x1b[{}A{CLEAR}", lines.len())?;
            match key {
                Key::Enter => return Ok(Some(())),
                Key::Stop => return Ok(None),
                key => list.press(key, step.options.len()),
            }
        }
    }
}

const fn word(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// What stays of a list once something is chosen.
fn chosen_line(labels: &[&str]) -> String {
    let shown = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
    format!("{CLEAR}  {}\n", harmless(&shown))
}

/// How wide the terminal is.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|it| *it > 0).unwrap_or(USUAL_COLUMNS)
}

/// Where somebody is in a list.
struct List {
    at: usize,
    /// Digits typed one after the other.
    typed: String,
    /// What is chosen, where several may be.
    chosen: Option<Vec<bool>>,
}

impl List {
    fn press(&mut self, key: Key, length: usize) {
        let last = length.saturating_sub(1);
        match key {
            Key::Char(digit @ '0'..='9') => {
                self.typed.push(digit);
                let number = |text: &str| text.parse::<usize>().ok();
                let fits = |number: &usize| (1..=length).contains(number);
                let whole = number(&self.typed).filter(fits);
                // A digit that leads nowhere begins a new number.
                if whole.is_none() {
                    self.typed = digit.to_string();
                }
                if let Some(number) = whole.or_else(|| number(&self.typed).filter(fits)) {
                    self.at = number - 1;
                }
                return;
            }
            Key::Up | Key::Char('k') => self.at = self.at.checked_sub(1).unwrap_or(last),
            Key::Down | Key::Char('j') => self.at = if self.at == last { 0 } else { self.at + 1 },
            Key::Char(' ') => {
                if let Some(mark) = self.chosen.as_mut().and_then(|it| it.get_mut(self.at)) {
                    *mark = !*mark;
                }
            }
            _ => {}
        }
        self.typed.clear();
    }

    /// The lines around the place, and how many there are before and after them.
    fn draw(&self, step: &Step, columns: usize, style: Style) -> Vec<String> {
        let Style { dim, reset, .. } = style;
        let length = step.options.len();
        let first = self.at.saturating_sub(WINDOW / 2).min(length.saturating_sub(WINDOW));
        let rows = step.options.iter().enumerate().skip(first).take(WINDOW);
        let width = length.to_string().len();
        let more = |count: usize| {
            let line: String = format!("  … {count} more").chars().take(columns).collect();
            (count > 0).then(|| line + "\n")
        };
        let after = more(length.saturating_sub(first + WINDOW));
        let lines = rows.map(|(at, option)| {
            let mark = if at == self.at { ">" } else { " " };
            let chosen = self.chosen.as_ref().map(|it| it.get(at).copied().unwrap_or_default());
            let chosen = match chosen {
                None => "",
                Some(true) => "[x] ",
                Some(false) => "[ ] ",
            };
            let head = format!("{mark} {:>width$}. {chosen}{}", at + 1, harmless(&option.label));
            let hint = harmless(option.hint.as_deref().unwrap_or_default());
            // A line that is folded cannot be gone back over.
            let head: String = head.chars().take(columns).collect();
            let room = columns.saturating_sub(head.chars().count() + 1);
            let hint: String = hint.chars().take(room).collect();
            if hint.is_empty() {
                format!("{head}\n")
            } else {
                format!("{head} {dim}{hint}{reset}\n")
            }
        });
        more(first).into_iter().chain(lines).chain(after).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wizard::StepOption;

    #[test]
    fn arrows_and_numbers_lead_to_a_line() {
        let mut list = List { at: 0, typed: String::new(), chosen: None };
        let mut after = |keys: &str| {
            for key in keys.chars() {
                let key = match key {
                    '^' => Key::Up,
                    'v' => Key::Down,
                    other => Key::Char(other),
                };
                list.press(key, 15);
            }
            list.at + 1
        };
        assert_eq!(after("vv"), 3);
        assert_eq!(after("^^^"), 15);
        assert_eq!(after("v"), 1);
        assert_eq!(after("12"), 12);
        assert_eq!(after("7"), 7);
        assert_eq!(after("0"), 7);
        assert_eq!(after("v3"), 3);
    }

    #[test]
    fn what_was_chosen_does_not_steer_the_terminal() {
        assert_eq!(chosen_line(&["a\x1b]0;t\x07", "b"]), format!("{CLEAR}  a]0;t, b\n"));
        assert_eq!(chosen_line(&[]), format!("{CLEAR}  none\n"));
    }

    #[test]
    fn a_long_list_is_shown_around_the_place() {
        let options: Vec<_> =
            (1..=30).map(|n| StepOption::new(n.to_string(), format!("line {n}"))).collect();
        let step = Step { options, ..Step::new(StepKind::Select, "n", "Which?") };
        let drawn = |at| List { at, typed: String::new(), chosen: None }.draw(&step, 12, STYLE);
        assert!(drawn(0).iter().all(|line| line.chars().count() <= 13));
        let below = "  … 18 more\n";
        assert_eq!((drawn(0).len(), drawn(0)[WINDOW].as_str()), (WINDOW + 1, below));
        assert_eq!(drawn(0)[0], ">  1. line 1\n");
        assert_eq!((drawn(29)[0].as_str(), drawn(29)[WINDOW].as_str()), (below, "> 30. line 3\n"));
        let middle = drawn(15);
        assert!(middle.contains(&"> 16. line 1\n".to_owned()));
        let ends = (middle[0].as_str(), middle[WINDOW + 1].as_str());
        assert_eq!(ends, ("  … 9 more\n", "  … 9 more\n"));
    }
}
