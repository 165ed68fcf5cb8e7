//! Patches in the format of `apply_patch`: reading one, and making its changes
//! in a text.

mod apply;
mod parse;

pub use apply::apply;
pub use parse::parse;

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    /// A file is written anew.
    Add {
        /// Which.
        path: String,
        /// All of it.
        contents: String,
    },
    /// A file goes away.
    Delete {
        /// Which.
        path: String,
    },
    /// Parts of a file change.
    Update {
        /// Which.
        path: String,
        /// Its new path.
        move_to: Option<String>,
        /// The parts, from the top to the bottom.
        chunks: Vec<Chunk>,
    },
}

/// A part of a file that changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunk {
    /// A line somewhere above it, such as the head of a function.
    pub below: Option<String>,
    /// Its lines.
    pub lines: Vec<Line>,
    /// Whether it ends with the file.
    pub is_at_end: bool,
}

/// A line of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// It stays.
    Keep(String),
    /// It goes.
    Remove(String),
    /// It comes.
    Add(String),
}
