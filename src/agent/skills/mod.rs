//! Skills: folders with a `SKILL.md` that tell the agent how to do something.
//!
//! Owns: finding them, whether they can work here, what of them goes into the
//! prompt and which commands they are, what is set for them in the config,
//! taking one over from a folder. Promises: nothing of a skill is run here; a
//! change is in the config file before it is acknowledged, and holds at once.
//! Must not: know the model, or block an async thread but where it says so.

mod check;
mod command;
mod front;
mod hub;
mod install;
mod listing;
mod scan;
mod search;
mod service;
mod update;

pub use check::Verdict;
pub use command::{Invocation, SkillCommand};
pub use front::{Head, Requires};
pub use hub::{Hub, HubError};
pub use install::{InstallError, Installed};
pub use scan::{Skill, SkillSource};
pub use search::matching;
pub use service::Skills;
pub use update::{SkillChange, UpdateError};
