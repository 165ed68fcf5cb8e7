//! The real binary among bad clients, bad providers, a bad network and a machine
//! that runs out of things: what works goes on, what does not is said, nothing is
//! half done, and what is mended is found out.

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "the stage is shared with other test crates")]
#[path = "../scenario/aimock.rs"]
mod aimock;
#[allow(dead_code, reason = "as above")]
#[path = "../chaos/dice.rs"]
mod dice;
#[allow(dead_code, unused_imports, unused_macros, reason = "as above")]
#[path = "../scenario/stage.rs"]
mod stage;
#[allow(dead_code, reason = "as above")]
#[path = "../storage/strace.rs"]
mod strace;

mod agent_removed;
mod crowd;
mod descriptors;
mod full_disk;
mod hanging_disk;
mod link;
mod long_messages;
mod providers;
mod put_away;
mod records;
mod road;
mod seen;
#[allow(dead_code, reason = "shared with tests of another machine")]
mod traveller;
