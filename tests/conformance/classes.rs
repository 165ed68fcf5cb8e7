//! Which values are not compared: ids, times and counts. One reviewed table,
//! by the name of the member. Versions, paths and hosts inside texts are dealt
//! with by `text`, which still compares what stands around them.

use super::differences::glob;

/// Why a member's value is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Made up by the server.
    Id,
    /// A moment or a duration.
    Time,
    /// Depends on load, prompt size or the order of earlier traffic.
    Count,
}

/// First the specific paths, then the member names. A pattern with `/` is
/// matched against the end of the JSON path, others against the last member.
pub const CLASSES: &[(&str, Class)] = &[
    ("nonce", Class::Id),
    ("connId", Class::Id),
    ("sessionId", Class::Id),
    ("messageId", Class::Id),
    ("responseId", Class::Id),
    ("requestId", Class::Id),
    ("approvalId", Class::Id),
    ("approvalSlug", Class::Id),
    ("deviceToken", Class::Id),
    ("signature", Class::Id),
    ("publicKey", Class::Id),
    ("hash", Class::Id),
    ("call_id", Class::Id),
    ("canvasHostUrl", Class::Id),
    ("*/__openclaw/id", Class::Id),
    ("*/toolCallId", Class::Id),
    ("*/itemId", Class::Id),
    ("/body/created", Class::Time),
    ("/events/*/data/created", Class::Time),
    ("created_at", Class::Time),
    ("ts", Class::Time),
    ("timestamp", Class::Time),
    ("*At", Class::Time),
    ("*AtMs", Class::Time),
    ("durationMs", Class::Time),
    ("lastDurationMs", Class::Time),
    ("anchorMs", Class::Time),
    ("runtimeMs", Class::Time),
    ("uptimeMs", Class::Time),
    ("age", Class::Time),
    ("pid", Class::Count),
    ("port", Class::Count),
    ("totalTokens", Class::Count),
    ("inputTokens", Class::Count),
    ("outputTokens", Class::Count),
    ("input_tokens", Class::Count),
    ("output_tokens", Class::Count),
    ("prompt_tokens", Class::Count),
    ("completion_tokens", Class::Count),
    ("total_tokens", Class::Count),
    // The length of a body with ids and times in it.
    ("content-length", Class::Count),
    ("estimatedCostUsd", Class::Count),
    ("*/usage/input", Class::Count),
    ("*/usage/output", Class::Count),
    ("*/lastCallUsage/input", Class::Count),
    ("*/lastCallUsage/output", Class::Count),
    ("*/usage/total", Class::Count),
    ("*/lastCallUsage/total", Class::Count),
    ("promptTokens", Class::Count),
    ("*/cost/*", Class::Count),
    ("date", Class::Time),
    ("startDate", Class::Time),
    ("endDate", Class::Time),
    ("*/activityDates/*", Class::Time),
    ("quarterIndex", Class::Time),
    ("*Activity", Class::Time),
    ("avgMs", Class::Time),
    ("p95Ms", Class::Time),
    ("minMs", Class::Time),
    ("maxMs", Class::Time),
    ("*/totals/input", Class::Count),
    ("*/totals/output", Class::Count),
    ("*/utcQuarterHourTokenUsage/*/input", Class::Count),
    ("*/utcQuarterHourTokenUsage/*/output", Class::Count),
    ("*/points/*/input", Class::Count),
    ("*/points/*/output", Class::Count),
    ("*/daily/*/input", Class::Count),
    ("*/daily/*/output", Class::Count),
    ("*Cost", Class::Count),
    ("cost", Class::Count),
    ("tokens", Class::Count),
    ("cumulativeTokens", Class::Count),
    ("*Files", Class::Count),
    ("beforeCount", Class::Count),
    ("afterCount", Class::Count),
    ("appliedCount", Class::Count),
    ("*/eventLoop/*", Class::Count),
    ("*/stateVersion/*", Class::Count),
    ("cursor", Class::Count),
    ("size", Class::Count),
    ("percentUsed", Class::Count),
    ("remainingTokens", Class::Count),
];

/// The class of the value at this JSON path, when it has one.
pub fn class_of(path: &str) -> Option<Class> {
    let member = path.rsplit('/').next().unwrap_or_default();
    CLASSES
        .iter()
        .find(|(pattern, _)| glob(pattern, if pattern.contains('/') { path } else { member }))
        .map(|(_, class)| *class)
}
