//! Chat services by which people reach agents, and agents people.
//!
//! Owns: the accounts of channels and their lives, who may write, which session
//! a message belongs to, replies on their way out. Promises: a message is
//! accepted once; a reply outlasts a crash, and one that may have been sent is
//! not sent again; only the platform's immutable id says who somebody is;
//! nothing runs for a channel that is not configured. Must not: know methods or
//! the HTTP side.

mod access;
mod ack;
mod announce;
mod answer;
mod attach;
mod body;
mod buttons;
mod channel;
mod chunk;
mod followers;
mod history;
mod hook;
mod import;
mod inbound;
mod masked;
mod media;
mod moved;
mod outbox;
mod pairing;
mod parts;
mod prefix;
mod preview;
mod remote;
mod replies;
mod route;
mod sending;
mod service;
mod state;
mod supervisor;
mod target;
mod telegram;
mod turns;
pub mod webhook;
mod workings;

pub use attach::{last_name, not_sent, read_named};
pub use body::{Body, MediaItem, Poll};
pub use buttons::{presented_buttons, presented_words};
pub use channel::{
    Action, Channel, Ear, Inlet, InletError, Refused, Said, SendFailure, Sent, Taken,
};
pub use chunk::{Measure, chunks};
pub use hook::{HookAnswer, HookRefusal, HookRequest};
pub use import::ImportedPeople;
pub use inbound::{Chat, Inbound, Received, RemoteFile, Sender};
pub use media::MediaKeepError;
pub use outbox::{Delivered, DeliveryError};
pub use pairing::PairingError;
pub use replies::{Expected, ReplyTo};
pub use sending::Outgoing;
pub use service::{Channels, ChannelsParts};
pub use state::AccountState;
pub use supervisor::ControlError;
pub use target::{Target, TargetError, Wanted, reachable};
pub use telegram::bot_name as telegram_bot_name;
pub use telegram::format::html as telegram_html;
