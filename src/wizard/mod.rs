//! Setting the gateway up by questions: model, key, channels, workspace, address.
//!
//! Owns: the questions, their order, and what becomes of the answers; sessions of
//! clients that are asked over the wire. Promises: one script for terminals and
//! clients ([`Asker`] puts the questions); nothing is written before the last
//! question is answered; what the config file holds beside it stays, comments
//! included; a secret is in no step, log or error. Must not: know methods or
//! terminals.

mod access;
mod asker;
mod changes;
mod channels;
mod check;
mod draft;
mod ending;
mod gateway;
mod model;
mod own;
mod remote;
mod script;
mod session;
mod sessions;
mod step;
mod talk;
mod workspace;

pub use asker::{Asker, Stopped};
pub use changes::{Changes, ConfigWriter, FileWriter, WriteRefused, Written};
pub use channels::LEAVES_OUT;
pub use draft::unusable;
pub use ending::{Outcome, next_steps};
pub use model::{CUSTOM, KEEP, OFFLINE, OLLAMA, OTHER_MODEL, SKIP, key_name};
pub use own::CUSTOM_KEY;
pub use script::{Mode, Section, Setup, run};
pub use session::{NextError, WizardSession};
pub use sessions::{AlreadyRunning, Wizards};
pub use step::{Answer, Step, StepKind, StepOption, WrongAnswer};
