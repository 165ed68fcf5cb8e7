//! The chat on a terminal whose screen is read.

use std::process::{Command, ExitStatus};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::support::pty::Pty;
use crate::support::{Gateway, program};

/// How long something may take to be on the screen.
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// What the terminal of [`Pty`] has at first.
const ROWS: u16 = 30;
const COLUMNS: u16 = 100;

/// A terminal with the chat on it.
pub struct Screen {
    pty: Pty,
    parser: vt100::Parser,
    read: usize,
}

/// The command of a chat with this gateway.
pub fn command(gateway: &Gateway, program: &str, before: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(before)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", gateway.home())
        .env("TERM", "xterm-256color")
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .env("OPENCLAW_CONFIG_PATH", gateway.config_path());
    command
}

impl Screen {
    /// Opens the chat on a terminal of its own, as a login on it would.
    pub fn open(gateway: &Gateway, args: &[&str]) -> Self {
        Self::open_with(gateway, args, &[])
    }

    pub fn open_with(gateway: &Gateway, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = command(gateway, "setsid", &["--ctty", program(), "tui"]);
        command.args(args).envs(env.iter().copied());
        Self::of(command)
    }

    /// Waits for nothing.
    pub fn started(command: Command) -> Self {
        Self { pty: Pty::spawn(command), parser: parser(ROWS, COLUMNS), read: 0 }
    }

    pub fn of(command: Command) -> Self {
        let mut screen = Self::started(command);
        screen.shows("ready");
        screen
    }

    fn read(&mut self) {
        let bytes = self.pty.bytes_from(self.read);
        self.read += bytes.len();
        self.parser.process(&bytes);
    }

    /// What is on it.
    pub fn text(&mut self) -> String {
        self.read();
        self.parser.screen().contents()
    }

    /// What the terminal knows.
    pub fn terminal(&mut self) -> &vt100::Screen {
        self.read();
        self.parser.screen()
    }

    /// Waits until the screen is so; gives its text.
    pub fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let text = self.text();
            if is_so(&text) {
                return text;
            }
            assert!(Instant::now() < deadline, "not {what}:\n{text}");
            sleep(POLL);
        }
    }

    /// Waits until this is on it.
    pub fn shows(&mut self, wanted: &str) -> String {
        self.until(&format!("showing {wanted:?}"), |text| text.contains(wanted))
    }

    /// Waits until this is not on it.
    pub fn hides(&mut self, unwanted: &str) -> String {
        self.until(&format!("hiding {unwanted:?}"), |text| !text.contains(unwanted))
    }

    /// Waits until nothing runs; gives the text.
    pub fn is_ready(&mut self) -> String {
        self.until("ready", |text| text.lines().any(|line| line.starts_with("ready")))
    }

    /// Types this.
    pub fn types(&mut self, keys: &(impl AsRef<[u8]> + ?Sized)) {
        self.pty.types(keys);
    }

    /// Says this, and waits until it is there.
    pub fn says(&mut self, text: &str) {
        self.pty.types(text);
        self.pty.types("\r");
    }

    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.read();
        self.parser = parser(rows, columns);
        // The modes are those of before; what is drawn comes anew.
        self.parser.process(b"\x1b[?1049h");
        self.pty.resize(rows, columns);
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pty.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.pty.pid()
    }

    /// All bytes that the terminal got.
    pub fn bytes(&self) -> Vec<u8> {
        self.pty.bytes_from(0)
    }

    /// Whether the terminal takes whole lines and shows what is typed.
    pub fn is_usual(&self) -> bool {
        self.pty.echoes()
    }

    /// Does what a shell does with the terminal of a command that was stopped from elsewhere.
    pub fn set_usual(&self) {
        self.pty.set_usual();
    }

    pub fn ends(&mut self) -> ExitStatus {
        self.pty.ends()
    }
}

fn parser(rows: u16, columns: u16) -> vt100::Parser {
    let size = |count: u16| std::num::NonZeroU16::new(count).unwrap();
    vt100::Parser::new(size(rows), size(columns), 0)
}
