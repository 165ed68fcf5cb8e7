//! Keys, as they are typed.
//!
//! Owns: the threads that wait for them and for the end of the terminal. Promises: a terminal
//! that is gone is told, and costs nothing.

use std::io;

use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc;

/// Keys that wait; a pasted text is one.
const QUEUE: usize = 256;

/// Something from the terminal.
#[derive(Debug)]
pub enum Typed {
    /// A key, a pasted text, another size.
    Event(Event),
    /// Nothing more comes.
    Gone,
}

/// What is typed from now on.
pub fn listen() -> io::Result<mpsc::Receiver<Typed>> {
    let (sender, typed) = mpsc::channel(QUEUE);
    let watcher = sender.clone();
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    thread("keys").spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(Typed::Event(event)).is_err() {
                return;
            }
        }
        let _ = sender.blocking_send(Typed::Gone);
    })?;
    // The reader above would try again for ever.
    thread("hangup").spawn(move || {
        wait_for_end();
        let _ = watcher.blocking_send(Typed::Gone);
    })?;
    Ok(typed)
}

/// Returns when the other end of the terminal is closed.
fn wait_for_end() {
    let stdin = io::stdin();
    loop {
        let mut wanted = [PollFd::new(&stdin, PollFlags::empty())];
        if poll(&mut wanted, None) != Err(rustix::io::Errno::INTR) {
            return;
        }
    }
}
