//! Keys, as they are typed.
//!
//! Owns: the thread that waits for them. Promises: a terminal that is gone ends it.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc;

/// Keys that wait; a pasted text is one.
const QUEUE: usize = 256;

/// The keys from now on; the end means that the terminal is gone.
pub fn listen() -> io::Result<mpsc::Receiver<Event>> {
    let (sender, keys) = mpsc::channel(QUEUE);
    std::thread::Builder::new().name("keys".into()).spawn(move || {
        // Whatever fails, nothing can be read any more.
        let _ = read(&sender);
    })?;
    Ok(keys)
}

fn read(keys: &mpsc::Sender<Event>) -> io::Result<()> {
    let stdin = io::stdin();
    loop {
        let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut wanted, None) {
            Err(rustix::io::Errno::INTR) => continue,
            outcome => outcome?,
        };
        let [got] = &wanted;
        // The reader below would try again for ever.
        if got.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(());
        }
        while event::poll(Duration::ZERO)? {
            if keys.blocking_send(event::read()?).is_err() {
                return Ok(());
            }
        }
    }
}
