//! How far long work is.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::format::size;

/// Characters of the bar.
const CELLS: u64 = 30;

/// A line on the terminal that shows how many bytes are done; nothing where stderr is
/// none.
pub struct Bar {
    is_shown: bool,
    /// The percentage that is shown, so that it is drawn a hundred times at most.
    shown: Arc<AtomicU64>,
}

impl Bar {
    /// A bar that shows nothing yet.
    pub fn new() -> Self {
        let is_shown = std::io::stderr().is_terminal();
        Self { is_shown, shown: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Told what is done, and of how much.
    pub fn progress(&self) -> Arc<dyn Fn(u64, u64) + Send + Sync> {
        if !self.is_shown {
            return Arc::new(|_, _| {});
        }
        let shown = Arc::clone(&self.shown);
        Arc::new(move |done, total| {
            let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100).min(100);
            if shown.swap(percent, Ordering::Relaxed) != percent {
                draw(&text(percent, done, total));
            }
        })
    }
}

impl Drop for Bar {
    /// Takes it away.
    fn drop(&mut self) {
        if self.is_shown {
            draw("\x1b[K");
        }
    }
}

fn text(percent: u64, done: u64, total: u64) -> String {
    let full = percent * CELLS / 100;
    let cells: String = (0..CELLS).map(|cell| if cell < full { '#' } else { '.' }).collect();
    format!("[{cells}] {percent:>3} %  {} of {}\x1b[K", size(done), size(total))
}

fn draw(text: &str) {
    let mut err = std::io::stderr().lock();
    // A terminal that is gone is no reason to stop.
    let _ = write!(err, "\r{text}").and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_from_left_to_right() {
        let plain = |percent| text(percent, percent, 100).replace("\x1b[K", "");
        assert_eq!(plain(0), format!("[{}]   0 %  0 B of 100 B", ".".repeat(30)));
        let half = format!("[{}{}]  50 %  50 B of 100 B", "#".repeat(15), ".".repeat(15));
        assert_eq!(plain(50), half);
        assert_eq!(plain(100), format!("[{}] 100 %  100 B of 100 B", "#".repeat(30)));
    }
}
