//! The gateway as people reach it: by a real browser, through real proxies, as
//! a real service, from another machine.

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "the stage is shared with other test crates")]
#[path = "../scenario/aimock.rs"]
mod aimock;
#[allow(dead_code, reason = "as above")]
#[path = "../chaos/dice.rs"]
mod dice;
#[allow(dead_code, reason = "as above")]
#[path = "../adversity/seen.rs"]
mod seen;
#[allow(dead_code, unused_imports, unused_macros, reason = "as above")]
#[path = "../scenario/stage.rs"]
mod stage;
#[allow(dead_code, reason = "as above")]
#[path = "../adversity/traveller.rs"]
mod traveller;

mod another_gateway;
mod another_machine;
mod browser;
mod chat_page;
mod claude_page;
mod control_ui;
mod cors;
mod login;
mod page;
mod proxies;
mod units;
