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

impl FileChange {
    /// The files that it names.
    pub fn paths(&self) -> impl Iterator<Item = &String> {
        let (path, move_to) = match self {
            Self::Add { path, .. } | Self::Delete { path } => (path, None),
            Self::Update { path, move_to, .. } => (path, move_to.as_ref()),
        };
        std::iter::once(path).chain(move_to)
    }
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
