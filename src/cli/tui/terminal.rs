//! The terminal, and how it is given back.
//!
//! Owns: its modes. Promises: whatever ends this program, but for a kill that it cannot see, the
//! terminal is as it was before. Must not: know what is drawn.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, KeyboardEnhancementFlags,
    PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Position, Rect};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, tcgetattr};

/// Whether the modes are ours, for whoever gives them back.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// Bytes of one drawing that are written at once: a full screen with all its colours.
const FRAME_BUFFER: usize = 64 << 10;

/// The terminal in full-screen mode. Dropping it gives it back.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

/// Whether a person sees what is printed and types what is read.
pub fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

fn take() -> io::Result<()> {
    // A shell that has stopped us without our knowing has set its own modes meanwhile, and what is
    // noted as taken is not taken again.
    if tcgetattr(io::stdin()).is_ok_and(|it| it.local_modes.contains(LocalModes::ICANON)) {
        disable_raw_mode()?;
    }
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::SeqCst);
    execute!(
        io::stdout(),
        EnterAlternateScreen,
        EnableBracketedPaste,
        // Only with this do terminals tell Ctrl+Enter from Enter; who does not know it ignores it.
        PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES)
    )
}

/// Gives the modes back, once.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        // A terminal that is gone needs nothing more.
        let _ = execute!(
            io::stdout(),
            PopKeyboardEnhancementFlags,
            DisableBracketedPaste,
            EndSynchronizedUpdate,
            LeaveAlternateScreen,
            Show
        );
        let _ = disable_raw_mode();
    }
}

impl Screen {
    /// Takes the terminal.
    pub fn take() -> io::Result<Self> {
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                // First, so that what it says can be read.
                give_back();
                usual(info);
            }));
        });
        let taken = take().and_then(|()| {
            let writer = BufWriter::with_capacity(FRAME_BUFFER, io::stdout());
            Terminal::new(CrosstermBackend::new(writer))
        });
        match taken {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Draws what has changed, at once if the terminal can.
    pub fn draw(
        &mut self,
        drawing: impl FnOnce(Rect, &mut Buffer) -> Option<Position>,
    ) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| {
            let area = frame.area();
            if let Some(cursor) = drawing(area, frame.buffer_mut()) {
                frame.set_cursor_position(cursor);
            }
        })?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.terminal.backend_mut().flush()
    }

    /// Draws everything anew, after somebody else has drawn.
    pub fn refresh(&mut self) -> io::Result<()> {
        take()?;
        // `clear` would ask the terminal where its cursor is, and wait for the answer.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Gives the terminal to the shell, until it gives it back.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // The usual way to stop; without a shell that could go on with it, it does nothing.
        let stopped = kill_process(getpid(), Signal::TSTP);
        self.refresh()?;
        Ok(stopped?)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}
