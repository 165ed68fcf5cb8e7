//! Which words wake an agent, and whom each of them wakes.

mod routing;
mod rules;
pub mod words;

pub use routing::{Route, RouteTarget, Routing};
