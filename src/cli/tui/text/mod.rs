//! Text as it is put on the screen.
//!
//! Owns: which characters may be shown (`clean`), how lines are broken (`wrap`), how Markdown
//! looks (`markdown`) and in which colours (`theme`). Promises: nothing that a message holds
//! steers the terminal or turns the order of what is read. Must not: know what a session is.

mod clean;
mod markdown;
mod theme;
mod wrap;

pub use clean::{clean, one_line, spelled, typed};
pub use markdown::markdown;
pub use theme::Theme;
pub use wrap::{Indent, cut, graphemes, plain, width, wrap};
