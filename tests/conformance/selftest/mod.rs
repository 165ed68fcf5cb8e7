//! The runner can pass, and it can fail.

mod aligning;
mod calling;
mod comparing;
mod playing_back;
mod provider;
mod reading;
