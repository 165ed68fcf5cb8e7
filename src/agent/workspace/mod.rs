//! The folder of an agent: the files that tell it who it is and how it works.
//!
//! Owns: which files these are, making them in a new workspace, reading and
//! writing them, what of them goes into the prompt. Promises: a file of the
//! user's is never overwritten but by `agents.files.set`; nothing outside of
//! the workspace is read or written through a link; a write is durable before
//! it is acknowledged. Must not: know the model, or block an async thread.

mod cache;
mod face;
mod files;
mod identity;
mod inject;
mod picture;
mod seed;
mod service;

pub use face::Face;
pub(in crate::agent) use files::Stamp;
pub use files::{FileEntry, FilesError};
pub use identity::{Avatar, FileIdentity};
pub use inject::{Audience, Injected, InjectedFile, Limits};
pub use service::Workspaces;

use std::path::Path;

use crate::agent::reach::Guard;
use crate::config::{AgentIdentity, Settings, WorkspaceSettings};
use crate::store::FileError;

/// Makes the folder of an agent, with the files of a new one unless the
/// settings say otherwise. Blocks.
///
/// # Errors
/// When the folder or a file cannot be made.
pub fn set_up(dir: &Path, settings: &WorkspaceSettings, now_ms: u64) -> Result<(), FileError> {
    crate::store::atomic::create_private_dir(dir)?;
    if !settings.skip_bootstrap {
        seed::ensure(dir, now_ms)?;
    }
    Ok(())
}

/// What the `IDENTITY.md` of a folder says; nothing when it cannot be had.
/// Blocks.
pub fn identity_of(dir: &Path, settings: &Settings) -> FileIdentity {
    let read = files::read(dir, BootstrapFile::Identity, &Guard::new(settings));
    let text = read.ok().and_then(|entry| entry.content);
    text.map(|text| identity::parse(&text)).unwrap_or_default()
}

/// Writes what is known of an agent into its `IDENTITY.md`; the rest of the file
/// stays. Blocks.
///
/// # Errors
/// When the file leads out of the workspace, is the gateway's own, too large or not writable.
pub fn present(
    dir: &Path,
    identity: &AgentIdentity,
    settings: &Settings,
) -> Result<(), FilesError> {
    let guard = Guard::new(settings);
    let before = files::read(dir, BootstrapFile::Identity, &guard)?.content;
    let text = before.as_deref().unwrap_or(BootstrapFile::Identity.template());
    let after = identity::presented(text, identity);
    if before.as_deref() != Some(after.as_str()) {
        files::write(dir, BootstrapFile::Identity, &after, &guard)?;
    }
    Ok(())
}

/// Why a prompt lacks files that are in the folder of an agent; `None` when all can be had.
/// Makes none. Blocks.
pub fn unreadable(dir: &Path, settings: &Settings) -> Option<String> {
    let guard = Guard::new(settings);
    let open = |file: BootstrapFile| files::open(dir, file, &guard).err();
    let wrong = BootstrapFile::ALL.into_iter().filter_map(open);
    let told: Vec<_> = wrong.map(|error| error.to_string()).collect();
    first_of(&told)
}

/// The first, and how many more there are.
fn first_of(told: &[String]) -> Option<String> {
    let (first, others) = told.split_first()?;
    let more = others.len();
    Some(if more == 0 { first.clone() } else { format!("{first} (and {more} more)") })
}

/// A file that an agent's prompt is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootstrapFile {
    /// How it works.
    Agents,
    /// Its manner.
    Soul,
    /// Notes on its surroundings.
    Tools,
    /// Its name and face.
    Identity,
    /// Whom it helps.
    User,
    /// What to look after when nobody asks.
    Heartbeat,
    /// What to do first of all; only in a new workspace.
    Bootstrap,
    /// What stays true.
    Memory,
}

impl BootstrapFile {
    /// All of them, in the order of the original.
    pub const ALL: [Self; 8] = [
        Self::Agents,
        Self::Soul,
        Self::Tools,
        Self::Identity,
        Self::User,
        Self::Heartbeat,
        Self::Bootstrap,
        Self::Memory,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agents => "AGENTS.md",
            Self::Soul => "SOUL.md",
            Self::Tools => "TOOLS.md",
            Self::Identity => "IDENTITY.md",
            Self::User => "USER.md",
            Self::Heartbeat => "HEARTBEAT.md",
            Self::Bootstrap => "BOOTSTRAP.md",
            Self::Memory => "MEMORY.md",
        }
    }

    /// The file of this name, exactly.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|file| file.name() == name)
    }

    /// What it says in a new workspace.
    const fn template(self) -> &'static str {
        match self {
            Self::Agents => include_str!("templates/AGENTS.md"),
            Self::Soul => include_str!("templates/SOUL.md"),
            Self::Tools => include_str!("templates/TOOLS.md"),
            Self::Identity => include_str!("templates/IDENTITY.md"),
            Self::User => include_str!("templates/USER.md"),
            Self::Heartbeat => include_str!("templates/HEARTBEAT.md"),
            Self::Bootstrap => include_str!("templates/BOOTSTRAP.md"),
            Self::Memory => include_str!("templates/MEMORY.md"),
        }
    }
}
