//! One file for each class of advisories: what went wrong elsewhere does not
//! here.

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "the stage is shared with other test crates")]
#[path = "../scenario/aimock.rs"]
mod aimock;
#[allow(dead_code, reason = "as above")]
#[path = "../scenario/program.rs"]
mod program;
#[allow(dead_code, unused_imports, unused_macros, reason = "as above")]
#[path = "../scenario/stage.rs"]
mod stage;

mod agent_rights;
mod bodies;
mod body_limits;
mod brute_force;
mod canary;
mod compatibility;
mod constant_time;
mod cors;
mod credentials;
mod device_matrix;
mod dialects;
mod doctor;
mod events;
mod exec_approvals;
mod file_modes;
mod floods;
mod forwarded_headers;
mod granted_scopes;
mod hooks;
mod http_methods;
mod http_oddities;
mod http_rights;
mod links;
mod locality;
mod log_poisoning;
mod minting;
mod nodes;
mod pages;
mod paths;
mod revocation;
mod rights;
mod routes;
mod session_ids;
mod session_tools;
mod setup_codes;
mod shares;
mod silent_sockets;
mod simple_devices;
mod ssrf;
mod terminals;
mod unauthenticated;
mod workspace_env;
