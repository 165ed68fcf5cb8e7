//! One function per method: decode, one service call, encode.
//!
//! Owns: the table of methods. Must not: hold state or rules of its own.

mod agent;
mod agent_files;
mod agent_said;
mod agent_target;
mod agents;
mod approvals;
mod artifacts;
pub mod ask;
mod attachments;
mod channel_inlet;
mod channels;
mod chat;
mod cleanup;
mod commands;
mod compaction;
mod config;
mod cron;
mod devices;
mod diagnostics;
mod health;
mod health_parts;
mod history;
mod logs;
mod memory_doctor;
mod messages;
mod metrics;
mod models;
mod node_asks;
mod node_events;
mod node_pairing;
mod node_work;
mod nodes;
mod plugins;
mod push;
mod reply;
mod restart;
mod roster;
mod secrets;
mod session_changes;
pub mod session_rest;
mod session_settings;
mod sessions;
mod shared;
mod skill_search;
mod skills;
mod stopping;
mod system;
mod talk;
mod tools;
mod tts;
mod unoffered;
mod updates;
pub mod uploads;
mod usage;
mod voicewake;
mod wizard;

pub(crate) use attachments::can_be_read;
pub use channel_inlet::ChannelInlet;
pub(crate) use chat::clean;
pub use cleanup::keep_tidy;
pub(crate) use config::{in_turn, take_up};
pub use health::{HealthCache, keep_fresh, look_again, tell_presence};
pub use metrics::keep_history;
pub use shared::Reads;

use crate::registry::{
    Registry, admin, approvals as decides, node, open, pairing as pairs, read, write,
};

/// `server.version` of hello-ok. Clients compare it with releases of the
/// original, so it names the one we speak like; what we are follows the plus.
pub const SERVER_VERSION: &str = concat!("2026.5.7+clawgate.", env!("CARGO_PKG_VERSION"));

/// Every method there is.
pub fn registry() -> Registry {
    let mut r = Registry::default();
    of_gateway(&mut r);
    of_operations(&mut r);
    of_agents(&mut r);
    of_sessions(&mut r);
    of_chats(&mut r);
    of_channels(&mut r);
    of_approvals(&mut r);
    of_devices(&mut r);
    of_nodes(&mut r);
    of_config(&mut r);
    of_cron(&mut r);
    of_voice(&mut r);
    of_push(&mut r);
    r
}

/// The gateway itself.
fn of_gateway(r: &mut Registry) {
    r.add(open("health").kept(health::kept), health::health);
    r.add(read("status"), system::status);
    r.add(read("system-presence"), system::presence);
    r.add(admin("system-event"), system::event);
    r.add(read("gateway.identity.get"), system::identity);
    r.add(read("gateway.metrics"), metrics::metrics);
    r.add(read("gateway.restart.preflight"), restart::preflight);
    r.add(admin("gateway.restart.request").limited(), restart::request);
}

/// How the gateway is, and what keeps it well.
fn of_operations(r: &mut Registry) {
    r.add(read("logs.tail"), logs::tail);
    r.add(read("diagnostics.stability"), diagnostics::stability);
    r.add(admin("update.status"), updates::status);
    r.add(admin("update.run").limited(), updates::run);
    r.add(read("plugins.uiDescriptors"), plugins::ui_descriptors);
    r.add(read("doctor.memory.status"), memory_doctor::status);
    r.add(read("doctor.memory.dreamDiary"), memory_doctor::diary);
    r.add(read("doctor.memory.remHarness"), memory_doctor::rem_harness);
    r.add(write("doctor.memory.backfillDreamDiary"), memory_doctor::backfill);
    r.add(write("doctor.memory.resetDreamDiary"), memory_doctor::reset_diary);
    r.add(write("doctor.memory.dedupeDreamDiary"), memory_doctor::dedupe_diary);
    r.add(write("doctor.memory.resetGroundedShortTerm"), memory_doctor::reset_grounded);
    r.add(write("doctor.memory.repairDreamingArtifacts"), memory_doctor::repair);
}

/// What agents are and can use.
fn of_agents(r: &mut Registry) {
    r.add(read("models.list"), models::list);
    r.add(read("models.authStatus"), models::auth_status);
    r.add(read("commands.list"), commands::list);
    r.add(read("agents.list"), agents::list);
    r.add(admin("agents.create"), roster::create);
    r.add(admin("agents.update"), roster::update);
    r.add(admin("agents.delete"), roster::delete);
    r.add(read("agent.identity.get"), agents::identity);
    r.add(read("agents.files.list"), agent_files::list);
    r.add(read("agents.files.get"), agent_files::get);
    r.add(admin("agents.files.set"), agent_files::set);
    r.add(read("skills.status"), skills::status);
    r.add(read("skills.search").waits(), skill_search::search);
    r.add(read("skills.detail").waits(), skill_search::detail);
    r.add(node("skills.bins"), skills::bins);
    r.add(admin("skills.update"), skills::update);
    r.add(admin("skills.install").waits(), skills::install);
    r.add(read("tools.catalog"), tools::catalog);
    r.add(read("tools.effective"), tools::effective);
    r.add(write("tools.invoke").waits(), tools::invoke);
}

/// Sessions and what they used.
fn of_sessions(r: &mut Registry) {
    r.add(read("sessions.list"), sessions::list);
    r.add(read("sessions.subscribe"), sessions::subscribe);
    r.add(read("sessions.unsubscribe"), sessions::unsubscribe);
    r.add(read("sessions.messages.subscribe"), sessions::subscribe_messages);
    r.add(read("sessions.messages.unsubscribe"), sessions::unsubscribe_messages);
    r.add(read("sessions.preview"), sessions::preview);
    r.add(read("sessions.describe"), sessions::describe);
    r.add(read("sessions.resolve"), sessions::resolve);
    r.add(read("sessions.get"), sessions::get);
    r.add(write("sessions.create"), session_settings::create);
    r.add(write("sessions.spawn"), session_settings::spawn);
    r.add(admin("sessions.patch"), session_settings::patch);
    r.add(admin("sessions.pluginPatch"), session_settings::plugin_patch);
    r.add(admin("sessions.cleanup"), cleanup::cleanup);
    r.add(read("sessions.usage"), usage::sessions);
    r.add(read("sessions.usage.timeseries"), usage::timeseries);
    r.add(read("sessions.usage.logs"), usage::logs);
    r.add(read("usage.status"), usage::status);
    r.add(read("usage.cost"), usage::cost);
    r.add(read("artifacts.list"), artifacts::list);
    r.add(read("artifacts.get"), artifacts::get);
    r.add(read("artifacts.download"), artifacts::download);
    r.add(write("sessions.send"), session_changes::send);
    r.add(write("sessions.steer"), session_changes::steer);
    r.add(write("sessions.abort"), session_changes::abort);
    r.add(admin("sessions.reset"), session_changes::reset);
    r.add(admin("sessions.delete"), session_changes::delete);
    r.add(admin("sessions.compact").waits(), compaction::compact);
    r.add(read("sessions.compaction.list"), compaction::list);
    r.add(read("sessions.compaction.get"), compaction::get);
    r.add(write("sessions.compaction.branch"), compaction::branch);
    r.add(admin("sessions.compaction.restore"), compaction::restore);
}

/// Messages and their runs.
fn of_chats(r: &mut Registry) {
    r.add(read("chat.history"), history::history);
    r.add(read("chat.startup"), history::startup);
    r.add(read("chat.message.get"), history::message);
    r.add(write("chat.send"), chat::send);
    r.add(write("chat.abort"), stopping::abort);
    r.add(write("agent").waits(), agent::run);
    r.add(write("agent.wait").waits(), agent::wait);
    r.add(admin("chat.inject"), chat::inject);
}

/// Questions to people, and what needs none.
fn of_approvals(r: &mut Registry) {
    r.add(admin("exec.approvals.get"), approvals::file_get);
    r.add(admin("exec.approvals.set"), approvals::file_set);
    r.add(admin("exec.approvals.node.get"), approvals::node_get);
    r.add(admin("exec.approvals.node.set"), approvals::node_set);
    r.add(decides("exec.approvals.list"), approvals::flat_list);
    r.add(decides("exec.approvals.resolve"), approvals::resolve_alias);
    r.add(decides("exec.approval.get"), approvals::exec_get);
    r.add(decides("exec.approval.list"), approvals::exec_list);
    r.add(decides("exec.approval.request").waits(), approvals::exec_request);
    r.add(decides("exec.approval.waitDecision").waits(), approvals::exec_wait);
    r.add(decides("exec.approval.resolve"), approvals::exec_resolve);
    r.add(decides("plugin.approval.list"), approvals::plugin_list);
    r.add(decides("plugin.approval.request").waits(), approvals::plugin_request);
    r.add(decides("plugin.approval.waitDecision").waits(), approvals::plugin_wait);
    r.add(decides("plugin.approval.resolve"), approvals::plugin_resolve);
}

/// Methods about devices.
fn of_devices(r: &mut Registry) {
    r.add(pairs("device.pair.list"), devices::list);
    r.add(pairs("device.pair.approve"), devices::approve);
    r.add(pairs("device.pair.reject"), devices::reject);
    r.add(pairs("device.pair.remove"), devices::remove);
    r.add(pairs("device.token.rotate"), devices::rotate);
    r.add(pairs("device.token.revoke"), devices::revoke);
    r.add(admin("device.pair.setupCode"), devices::setup_code);
    r.add(admin("device.pair.loginCode"), devices::login_code);
    r.add(admin("device.pair.clearCodes"), devices::clear_codes);
}

/// Methods for nodes and about them.
fn of_nodes(r: &mut Registry) {
    r.add(pairs("node.pair.request"), node_pairing::request);
    r.add(pairs("node.pair.list"), node_pairing::list);
    r.add(pairs("node.pair.approve"), node_pairing::approve);
    r.add(pairs("node.pair.reject"), node_pairing::reject);
    r.add(pairs("node.pair.remove"), node_pairing::remove);
    r.add(pairs("node.pair.verify"), node_pairing::verify);
    r.add(pairs("node.rename"), nodes::rename);
    r.add(read("node.list"), nodes::list);
    r.add(read("node.describe"), nodes::describe);
    r.add(write("node.invoke").waits(), nodes::invoke);
    r.add(write("node.pending.enqueue"), node_work::enqueue);
    r.add(node("node.pending.drain"), node_work::drain);
    r.add(node("node.pending.pull"), node_work::pull);
    r.add(node("node.pending.ack"), node_work::ack);
    r.add(node("node.invoke.result"), nodes::result);
    r.add(node("node.event"), node_events::event);
    r.add(node("node.canvas.capability.refresh"), node_work::refresh_canvas);
}

/// The config file, and what it refers to.
fn of_config(r: &mut Registry) {
    r.add(read("config.get"), config::get);
    r.add(admin("config.set"), config::set);
    r.add(admin("config.patch").limited(), config::patch);
    r.add(admin("config.apply").limited(), config::apply);
    r.add(admin("config.schema"), config::schema);
    r.add(read("config.schema.lookup"), config::schema_lookup);
    r.add(admin("config.openFile"), config::open_file);
    r.add(admin("secrets.reload").waits(), secrets::reload);
    r.add(admin("secrets.resolve"), secrets::resolve);
    r.add(admin("wizard.start").waits(), wizard::start);
    r.add(admin("wizard.next").waits(), wizard::next);
    r.add(admin("wizard.cancel"), wizard::cancel);
    r.add(admin("wizard.status"), wizard::status);
}

/// People of chat services.
fn of_channels(r: &mut Registry) {
    r.add(read("channels.status"), channels::status);
    r.add(admin("channels.start"), channels::start);
    r.add(admin("channels.stop"), channels::stop);
    r.add(admin("channels.logout"), channels::logout);
    r.add(admin("channels.pairing.list"), channels::pairings);
    r.add(admin("channels.pairing.approve"), channels::approve);
    r.add(admin("channels.pairing.reject"), channels::reject);
    r.add(admin("channels.pairing.remove"), channels::remove);
    r.add(write("send").waits(), messages::send);
    r.add(write("poll").waits(), messages::poll);
    r.add(write("message.action").waits(), messages::action);
}

/// Jobs and heartbeats.
fn of_cron(r: &mut Registry) {
    r.add(read("last-heartbeat"), cron::last_heartbeat);
    r.add(admin("set-heartbeats"), cron::set_heartbeats);
    r.add(write("wake"), cron::wake);
    r.add(read("cron.list"), cron::list);
    r.add(read("cron.get"), cron::get);
    r.add(read("cron.status"), cron::status);
    r.add(admin("cron.add"), cron::add);
    r.add(admin("cron.update"), cron::update);
    r.add(admin("cron.remove"), cron::remove);
    r.add(admin("cron.run"), cron::run);
    r.add(read("cron.runs"), cron::runs);
    r.add(read("cron.preview"), cron::preview);
}

/// Speech.
fn of_voice(r: &mut Registry) {
    r.add(read("voicewake.get"), voicewake::get);
    r.add(write("voicewake.set"), voicewake::set);
    r.add(read("voicewake.routing.get"), voicewake::routing_get);
    r.add(write("voicewake.routing.set"), voicewake::routing_set);
    r.add(read("tts.status"), tts::status);
    r.add(read("tts.providers"), tts::providers);
    r.add(read("tts.personas"), tts::personas);
    r.add(write("tts.enable"), tts::enable);
    r.add(write("tts.disable"), tts::disable);
    r.add(write("tts.setProvider"), tts::set_provider);
    r.add(write("tts.setPersona"), tts::set_persona);
    r.add(write("tts.convert").waits(), tts::convert);
    r.add(read("talk.config"), talk::config);
    r.add(write("talk.mode"), talk::mode);
    r.add(write("talk.speak").waits(), talk::speak);
    r.add(write("talk.realtime.session"), talk::realtime_session);
    r.add(write("talk.realtime.relayAudio"), talk::relay_audio);
    r.add(write("talk.realtime.relayMark"), talk::relay_mark);
    r.add(write("talk.realtime.relayStop"), talk::relay_stop);
    r.add(write("talk.realtime.relayToolResult"), talk::relay_tool_result);
}

/// Notifications, and what there is none of.
fn of_push(r: &mut Registry) {
    r.add(write("push.test").waits(), push::test);
    r.add(write("push.web.vapidPublicKey"), push::public_key);
    r.add(write("push.web.subscribe"), push::subscribe);
    r.add(write("push.web.unsubscribe"), push::unsubscribe);
    r.add(write("push.web.test").waits(), push::web_test);
    r.add(admin("web.login.start"), unoffered::login_start);
    r.add(admin("web.login.wait"), unoffered::login_wait);
    r.add(admin("nativeHook.invoke"), unoffered::native_hook);
    r.add(admin("browser.request"), unoffered::browser);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_method_is_listed_twice() {
        let registry = registry();
        let names: Vec<_> = registry.list().map(|(name, _)| name).collect();
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
