//! The real binary over real sockets, with models played by a third-party
//! mock server, by the scripted provider of `support`, or by the gateway's own
//! offline model.

#[path = "../support/mod.rs"]
mod support;

mod aimock;
mod stage;

mod abort;
mod agent_method;
mod apis;
mod approvals;
mod attachments;
mod begin_again;
mod channels;
mod claude_cli;
mod command_rights;
mod commands;
mod compaction;
mod config;
mod cron;
mod devices;
mod exec;
mod failover;
mod failures;
mod file_tools;
mod idempotency;
mod lanes;
mod limits;
mod live;
mod llama_cpp;
mod maintenance;
mod marks;
mod mcp;
mod models;
mod nodes;
mod nodes_cli;
mod offline;
mod ollama;
mod passed_on;
mod presence;
mod profiles;
mod queue;
mod reload;
mod reset;
mod restart;
mod scopes;
mod secrets;
mod seed_client;
mod sequence;
mod session_create;
mod session_list;
mod session_settings;
mod session_tools;
mod sessions;
mod shutdown;
mod skill_use;
mod skills;
mod slow_reader;
mod streaming;
mod subagents;
mod timeouts;
mod tls;
mod tool_abort;
mod tool_events;
mod tool_methods;
mod usage;
mod viewers;
mod web;
mod whole_messages;
mod workspace;
