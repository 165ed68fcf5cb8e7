//! The command on a terminal: what it shows, and what somebody types.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tokio::time::Instant;

/// How long the command may take to show something.
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// A terminal with a command on it. Dropping it kills the command.
pub struct Pty {
    end: File,
    /// Held, so that the terminal outlasts the command.
    other: File,
    child: Child,
    shown: Arc<Mutex<String>>,
    /// The same, byte by byte.
    bytes: Arc<Mutex<Vec<u8>>>,
    /// How much of it was looked at.
    seen: usize,
}

impl Pty {
    pub fn spawn(mut command: Command) -> Self {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&end).unwrap();
        unlockpt(&end).unwrap();
        let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&end, size).unwrap();
        let path = ptsname(&end, Vec::new()).unwrap().into_string().unwrap();
        let other = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let stream = || other.try_clone().unwrap();
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        let end = File::from(end);
        let (mut from, shown) = (end.try_clone().unwrap(), Arc::<Mutex<String>>::default());
        let screen = Arc::clone(&shown);
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let raw = Arc::clone(&bytes);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut piece) {
                raw.lock().extend_from_slice(&piece[..length]);
                screen.lock().push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        });
        Self { end, other, child, shown, bytes, seen: 0 }
    }

    /// Waits until the command shows this, after what was waited for before.
    pub fn shows(&mut self, text: &str) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let found = self.shown.lock()[self.seen..].find(text);
            if let Some(at) = found {
                self.seen += at + text.len();
                return;
            }
            assert!(Instant::now() < deadline, "no {text:?} in {}", self.all());
            thread::sleep(POLL);
        }
    }

    /// Types this, as soon as the command takes single keys.
    pub fn types(&mut self, keys: &(impl AsRef<[u8]> + ?Sized)) {
        let deadline = Instant::now() + LIMIT;
        while tcgetattr(&self.other).unwrap().local_modes.contains(LocalModes::ICANON) {
            assert!(Instant::now() < deadline, "no question: {}", self.all());
            thread::sleep(POLL);
        }
        self.end.write_all(keys.as_ref()).unwrap();
    }

    /// Waits for what is asked, and answers.
    pub fn answers(&mut self, question: &str, keys: &str) {
        self.shows(question);
        self.types(keys);
    }

    /// Everything that was shown.
    pub fn all(&self) -> String {
        self.shown.lock().clone()
    }

    /// The same as bytes, from here on.
    pub fn bytes_from(&self, start: usize) -> Vec<u8> {
        self.bytes.lock()[start..].to_vec()
    }

    /// Makes the terminal another size.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.end, size).unwrap();
    }

    /// The process on it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether what is typed is shown again.
    pub fn echoes(&self) -> bool {
        tcgetattr(&self.other).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    /// Sets the modes that a shell has for what it runs.
    pub fn set_usual(&self) {
        let mut modes = tcgetattr(&self.other).unwrap();
        modes.local_modes.insert(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&self.other, OptionalActions::Now, &modes).unwrap();
    }

    /// Waits for the end of the command.
    pub fn ends(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it goes on: {}", self.all());
            thread::sleep(POLL);
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
