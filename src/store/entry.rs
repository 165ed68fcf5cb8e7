//! One row of the session index.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::checkpoint::{self, CompactionCheckpoint};

/// What is known about a session: the members of OpenClaw's `sessions.json`
/// that we use, under the same names. All others survive in `extra`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionEntry {
    /// Id of the current transcript.
    pub session_id: String,
    /// Last change, in milliseconds since the epoch.
    #[serde(deserialize_with = "whole")]
    pub updated_at: u64,
    /// When this transcript began.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub session_started_at: Option<u64>,
    /// When a person last said something.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub last_interaction_at: Option<u64>,
    /// Path of the transcript; only its file name is trusted.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    /// Name that a user gave it; unique.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Name that a channel gave it.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// `off … xhigh`.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
    /// `on`, `off` or `full`: how much of tool calls is shown.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub verbose_level: Option<String>,
    /// `on`, `off` or `raw`: whether plugins show what they did.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub trace_level: Option<String>,
    /// `on`, `off` or `stream`: whether thinking is shown.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<String>,
    /// `on`, `off`, `ask` or `full`: whether commands leave the sandbox.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub elevated_level: Option<String>,
    /// Whether the provider's faster service is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_mode: Option<bool>,
    /// `tokens` or `full`: what answers tell of their price.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub response_usage: Option<String>,
    /// `auto`, `sandbox`, `gateway` or `node`: where commands run.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub exec_host: Option<String>,
    /// `deny`, `allowlist` or `full`: which commands run.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub exec_security: Option<String>,
    /// `off`, `on-miss` or `always`: whether a person is asked before.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub exec_ask: Option<String>,
    /// `default`, `acceptEdits`, `plan` or `bypassPermissions`, once somebody has
    /// chosen one.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// The node that commands run on.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub exec_node: Option<String>,
    /// `mention` or `always`: what is answered in a group.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub group_activation: Option<String>,
    /// Added to the system prompt of this session.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub extra_system_prompt: Option<String>,
    /// `deny` refuses `chat.send`.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub send_policy: Option<String>,
    /// What happens to messages while a run is active here; the config's word
    /// when absent, as for the next three.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub queue_mode: Option<String>,
    /// Milliseconds of quiet before collected messages are answered.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub queue_debounce_ms: Option<u64>,
    /// Most messages that wait.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub queue_cap: Option<u64>,
    /// `old`, `new` or `summarize`.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub queue_drop: Option<String>,
    /// Provider chosen for this session.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub provider_override: Option<String>,
    /// Model chosen for this session.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub model_override: Option<String>,
    /// Who chose it: `user` or `auto`.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub model_override_source: Option<String>,
    /// Whether the model was changed since the last run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_model_switch_pending: Option<bool>,
    /// `direct`, `group` or `channel`.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub chat_type: Option<String>,
    /// Channel it belongs to.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Channel of the last message.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub last_channel: Option<String>,
    /// Where the first message came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Value>,
    /// Where answers go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_context: Option<Value>,
    /// Whether the model has seen the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_sent: Option<bool>,
    /// Whether somebody stopped the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aborted_last_run: Option<bool>,
    /// `running`, `done`, `failed`, `killed` or `timeout`.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Start of the last run.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    /// End of the last run.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Length of the last run in milliseconds.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub runtime_ms: Option<u64>,
    /// Prompt tokens of the last run.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Answer tokens of the last run.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens read from the provider's cache in the last run.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Tokens written to the provider's cache in the last run.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Size of the context after the last run.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Whether `total_tokens` is that of the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens_fresh: Option<bool>,
    /// Size of the model's context window.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Price of the session so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_cost_usd: Option<f64>,
    /// Provider of the last run.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    /// Model of the last run.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How often it was compacted.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub compaction_count: Option<u64>,
    /// Compactions that can be gone back behind, oldest first.
    #[serde(deserialize_with = "checkpoint::readable", skip_serializing_if = "Vec::is_empty")]
    pub compaction_checkpoints: Vec<CompactionCheckpoint>,
    /// Session that spawned this one.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<String>,
    /// Folder that it works in, by the wish of that session.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub spawned_workspace_dir: Option<String>,
    /// How many sessions are above it.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub spawn_depth: Option<u64>,
    /// `orchestrator` or `leaf`.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub subagent_role: Option<String>,
    /// `children` or `none`: which sessions it may steer.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub subagent_control_scope: Option<String>,
    /// Lists of tools that it may use at all: one that is not in all of them is
    /// not. Sub-agents inherit them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_limits: Vec<Vec<String>>,
    /// Session that this one was branched off.
    #[serde(deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub parent_session_key: Option<String>,
    /// Members that we do not use.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
    /// What the index remembers of the transcript; columns of their own, never
    /// part of the entry's JSON.
    #[serde(skip)]
    pub transcript: TranscriptFacts,
}

/// What the index remembers of a transcript, so that nobody has to read the
/// whole file. True for its first `bytes` bytes; what follows is caught up on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TranscriptFacts {
    /// Messages in those bytes; the `seq` of the last of them.
    pub message_count: u64,
    /// How far the file was counted.
    pub bytes: u64,
    /// Id of the last tree entry.
    pub leaf_id: Option<String>,
    /// The beginning of what the user said first.
    pub derived_title: Option<String>,
    /// More of the same, on one line: at most 120 characters.
    pub opening: Option<String>,
    /// The beginning of the last message with text.
    pub last_message: Option<String>,
}

/// There are many of these, and each would be compiled by itself.
#[inline(never)]
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

/// JavaScript writes times that come from the file system with a fraction.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(maybe_whole(deserializer)?.unwrap_or_default())
}

fn maybe_whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(deserializer)?;
    Ok(number.and_then(|number| {
        let text = number.to_string();
        text.split('.').next().and_then(|whole| whole.parse().ok())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn members_that_we_do_not_know_survive() {
        let recorded = json!({
            "sessionId": "d0b75ede", "updatedAt": 1_795_319_301_031_u64, "label": "Renamed",
            "origin": {"provider": "webchat"}, "systemSent": true, "estimatedCostUsd": 0.004_953,
            "spawnedBy": "agent:main:main", "spawnDepth": 1, "fastMode": true, "skillsSnapshot": {"prompt": "…", "version": 0},
        });
        let entry: SessionEntry = serde_json::from_value(recorded.clone()).unwrap();
        assert_eq!(entry.label.as_deref(), Some("Renamed"));
        assert_eq!(serde_json::to_value(entry).unwrap(), recorded);
    }

    #[test]
    fn a_checkpoint_that_cannot_be_read_costs_only_itself() {
        let place = json!({"sessionId": "a", "sessionFile": "/s/a.jsonl", "leafId": "b"});
        let good = json!({"checkpointId": "c", "sessionKey": "k", "sessionId": "a", "createdAt": 1,
            "reason": "overflow-retry", "preCompaction": place, "postCompaction": place});
        let mut written = json!({"sessionId": "a", "updatedAt": 1,
            "compactionCheckpoints": [good, {"checkpointId": 7}, null]});
        let entry: SessionEntry = serde_json::from_value(written.clone()).unwrap();
        written["compactionCheckpoints"] = json!([good]);
        assert_eq!(serde_json::to_value(entry).unwrap(), written);
    }

    #[test]
    fn a_time_with_a_fraction_is_cut() {
        let entry: SessionEntry = serde_json::from_value(
            json!({"updatedAt": 1_795_317_898_828.359_4, "startedAt": null}),
        )
        .unwrap();
        assert_eq!((entry.updated_at, entry.started_at), (1_795_317_898_828, None));
    }
}
