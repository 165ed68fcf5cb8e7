//! From events to the screen, and back.
//!
//! Owns: the loop. Promises: at most so many drawings in a second, none while nothing changes; the
//! terminal is given back before the program ends.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use ratatui::crossterm::event::Event as TerminalEvent;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::keyboard::{self, Typed};
use super::link::{Link, Wish};
use super::state::{self, Effect, Event, State};
use super::terminal::Screen;
use super::view::{Turn, View};
use crate::cli::CliError;
use crate::support::{Clock, SystemClock};

/// Time between two drawings.
const FRAME: Duration = Duration::from_millis(33);
/// Time between two drawings of what moves by itself.
const TICK: Duration = Duration::from_millis(100);
/// Who leaves waits for so long until the gateway has what was said last.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The screen and everything that changes it.
pub struct Driver {
    state: State,
    view: View,
    screen: Screen,
    link: Link,
    clock: SystemClock,
    is_stale: bool,
    exit: Option<u8>,
}

struct Signals {
    ends: [(Signal, u8); 3],
    resized: Signal,
    continued: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let of = |kind: SignalKind| -> io::Result<(Signal, u8)> {
            // A shell tells 128 and the number of the signal.
            let code = u8::try_from(128 + kind.as_raw_value()).unwrap_or(1);
            Ok((signal(kind)?, code))
        };
        let continued = SignalKind::from_raw(rustix::process::Signal::CONT.as_raw());
        Ok(Self {
            ends: [
                of(SignalKind::terminate())?,
                of(SignalKind::interrupt())?,
                of(SignalKind::hangup())?,
            ],
            resized: signal(SignalKind::window_change())?,
            continued: signal(continued)?,
        })
    }
}

impl Driver {
    /// Takes the terminal.
    pub fn new(state: State, view: View, link: Link) -> io::Result<Self> {
        let screen = Screen::take()?;
        Ok(Self { state, view, screen, link, clock: SystemClock, is_stale: true, exit: None })
    }

    /// Runs until the user leaves; gives the exit code, and what was said and is not known to
    /// have reached the gateway.
    pub async fn run(mut self) -> Result<(u8, Vec<String>), CliError> {
        let mut signals = Signals::new()?;
        let mut keys = keyboard::listen()?;
        let (mut next_frame, mut next_tick) = (Instant::now(), Instant::now() + TICK);
        while self.exit.is_none() {
            let Signals { ends: [term, int, hup], resized, continued } = &mut signals;
            tokio::select! {
                biased;
                _ = term.0.recv() => self.exit = Some(term.1),
                _ = int.0.recv() => self.exit = Some(int.1),
                _ = hup.0.recv() => self.exit = Some(hup.1),
                _ = continued.recv() => { self.screen.refresh()?; self.is_stale = true; }
                _ = resized.recv() => self.is_stale = true,
                typed = keys.recv() => self.key(typed.unwrap_or(Typed::Gone))?,
                () = sleep_until(next_frame), if self.is_stale => {
                    self.draw()?;
                    next_frame = Instant::now() + FRAME;
                }
                event = self.link.events.recv() => match event {
                    Some(event) => self.take(event)?,
                    // The task that keeps the connection has failed.
                    None => self.exit = Some(1),
                },
                () = sleep_until(next_tick), if self.state.is_moving() => {
                    next_tick = Instant::now() + TICK;
                    self.take(Event::Tick)?;
                }
            }
            self.read_on(&mut keys)?;
        }
        let code = self.exit.unwrap_or(0);
        let mut unsent = if code == 0 { self.hand_over().await? } else { Vec::new() };
        unsent.extend(self.state.unsent());
        Ok((code, unsent))
    }

    /// Waits until the gateway has what was said, as long as there is a connection. Gives what it
    /// has refused, which nobody sees on the screen any more.
    async fn hand_over(&mut self) -> Result<Vec<String>, CliError> {
        let give_up = Instant::now() + LAST_WORDS;
        let mut refused = Vec::new();
        while self.state.waiting() > 0 && self.state.link == state::Link::Up {
            let Ok(Some(event)) = timeout_at(give_up, self.link.events.recv()).await else { break };
            refused.extend(self.state.refused_by(&event));
            self.take(event)?;
        }
        Ok(refused)
    }

    /// Takes what is there already, so that one drawing shows all of it.
    fn read_on(&mut self, keys: &mut mpsc::Receiver<Typed>) -> Result<(), CliError> {
        while self.exit.is_none() {
            let Ok(key) = keys.try_recv() else { return Ok(()) };
            self.key(key)?;
        }
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        self.is_stale = false;
        let (state, view) = (&self.state, &mut self.view);
        self.screen.draw(|area, buffer| view.draw(state, area, buffer))
    }

    fn key(&mut self, typed: Typed) -> Result<(), CliError> {
        match typed {
            Typed::Event(TerminalEvent::Key(key)) => self.take(Event::Key(key)),
            Typed::Event(TerminalEvent::Paste(text)) => self.take(Event::Paste(text)),
            Typed::Event(_) => {
                self.is_stale = true;
                Ok(())
            }
            Typed::Gone => {
                self.exit = Some(1);
                Ok(())
            }
        }
    }

    fn take(&mut self, event: Event) -> Result<(), CliError> {
        self.is_stale = true;
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.state.update(event, self.clock.now_ms()) {
                match effect {
                    Effect::Request(ask, method, params) => {
                        events.extend(self.wish(Wish::Request(ask, method, params)));
                    }
                    Effect::Connect => events.extend(self.wish(Wish::Now)),
                    Effect::Scroll(by) => self.view.turn(Turn::Lines(by)),
                    Effect::Page(by) => self.view.turn(Turn::Pages(by)),
                    Effect::Top => self.view.turn(Turn::Top),
                    Effect::Bottom => self.view.turn(Turn::Bottom),
                    Effect::Suspend => self.screen.suspend()?,
                    Effect::Quit => self.exit = Some(0),
                }
            }
        }
        Ok(())
    }

    /// Hands it over. Waiting for room could last for ever: the other side may wait for room
    /// among the events.
    fn wish(&self, wish: Wish) -> Option<Event> {
        match self.link.wishes.try_send(wish) {
            Err(TrySendError::Full(Wish::Request(ask, ..))) => {
                let result = Err("too much is being asked at once; try again".to_owned());
                Some(Event::Answer { ask, result })
            }
            // It is gone only together with its events, which end the loop.
            _ => None,
        }
    }
}
