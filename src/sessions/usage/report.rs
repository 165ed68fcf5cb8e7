//! What clients get to see of a tally, under the original's names.

use std::collections::BTreeMap;

use serde::Serialize;

use super::range::{QUARTER_MS, Zone};
use super::tally::{Day, MessageCounts, ModelKey, Tally, Totals, number};
use crate::support::sort;

/// Quarter hours of a day.
const QUARTERS_OF_DAY: u64 = 96;

#[derive(Debug, Clone, Serialize)]
struct DaySpending {
    date: String,
    tokens: u64,
    #[serde(serialize_with = "number")]
    cost: f64,
}

#[derive(Debug, Clone, Serialize)]
struct DayMessages {
    date: String,
    #[serde(flatten)]
    counts: MessageCounts,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct QuarterMessages {
    date: String,
    quarter_index: u64,
    #[serde(flatten)]
    counts: MessageCounts,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct QuarterTokens {
    date: String,
    quarter_index: u64,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total_tokens: u64,
    #[serde(serialize_with = "number")]
    total_cost: f64,
}

/// How long answers took.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Latency {
    count: usize,
    #[serde(serialize_with = "number")]
    avg_ms: f64,
    p95_ms: u64,
    min_ms: u64,
    max_ms: u64,
}

#[derive(Debug, Clone, Serialize)]
struct DayLatency {
    date: String,
    #[serde(flatten)]
    latency: Latency,
}

#[derive(Debug, Clone, Serialize)]
struct DayModel {
    date: String,
    provider: String,
    model: String,
    tokens: u64,
    #[serde(serialize_with = "number")]
    cost: f64,
    count: u64,
}

#[derive(Debug, Clone, Serialize)]
struct ModelUsage {
    provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    count: u64,
    totals: Totals,
}

#[derive(Debug, Clone, Serialize)]
struct ToolCount {
    name: String,
    count: u64,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolUsage {
    total_calls: u64,
    unique_tools: usize,
    tools: Vec<ToolCount>,
}

/// `usage` of a session.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionUsage {
    session_id: String,
    session_file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_activity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_activity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    activity_dates: Vec<String>,
    daily_breakdown: Vec<DaySpending>,
    daily_message_counts: Vec<DayMessages>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    utc_quarter_hour_message_counts: Vec<QuarterMessages>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    utc_quarter_hour_token_usage: Vec<QuarterTokens>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    daily_latency: Vec<DayLatency>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    daily_model_usage: Vec<DayModel>,
    message_counts: MessageCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_usage: Option<ToolUsage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    model_usage: Vec<ModelUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Latency>,
    #[serde(flatten)]
    totals: Totals,
}

impl SessionUsage {
    pub(super) fn new(session_id: String, session_file: String, tally: &Tally) -> Self {
        let duration_ms = tally.first_at.zip(tally.last_at);
        let tools = tools(tally);
        Self {
            session_id,
            session_file,
            first_activity: tally.first_at,
            last_activity: tally.last_at,
            duration_ms: duration_ms.map(|(first, last)| last.saturating_sub(first)),
            activity_dates: days(tally, |day| day.messages, |date, _| date),
            daily_breakdown: days(
                tally,
                |day| day.spent,
                |date, (tokens, cost)| DaySpending { date, tokens, cost },
            ),
            daily_message_counts: days(
                tally,
                |day| day.messages,
                |date, counts| DayMessages { date, counts },
            ),
            utc_quarter_hour_message_counts: quarter_messages(tally),
            utc_quarter_hour_token_usage: quarter_tokens(tally),
            daily_latency: daily_latency(tally),
            daily_model_usage: daily_models(tally),
            message_counts: tally.messages,
            tool_usage: (tools.unique_tools > 0).then_some(tools),
            model_usage: models(tally),
            latency: latency(&tally.latencies),
            totals: tally.totals,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct AgentTotals {
    agent_id: String,
    totals: Totals,
}

#[derive(Debug, Clone, Serialize)]
struct ChannelTotals {
    channel: String,
    totals: Totals,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct DayTotals {
    date: String,
    tokens: u64,
    #[serde(serialize_with = "number")]
    cost: f64,
    messages: u64,
    tool_calls: u64,
    errors: u64,
}

/// `aggregates` of several sessions.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Aggregates {
    messages: MessageCounts,
    tools: ToolUsage,
    by_model: Vec<ModelUsage>,
    by_provider: Vec<ModelUsage>,
    by_agent: Vec<AgentTotals>,
    by_channel: Vec<ChannelTotals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Latency>,
    daily_latency: Vec<DayLatency>,
    model_daily: Vec<DayModel>,
    daily: Vec<DayTotals>,
}

impl Aggregates {
    pub(super) fn new(
        all: &Tally,
        agents: BTreeMap<String, Totals>,
        channels: BTreeMap<String, Totals>,
    ) -> Self {
        let mut by_agent: Vec<_> =
            agents.into_iter().map(|(agent_id, totals)| AgentTotals { agent_id, totals }).collect();
        sort::by(&mut by_agent, |a, b| b.totals.total_cost.total_cmp(&a.totals.total_cost));
        let mut by_channel: Vec<_> = channels
            .into_iter()
            .map(|(channel, totals)| ChannelTotals { channel, totals })
            .collect();
        sort::by(&mut by_channel, |a, b| b.totals.total_cost.total_cmp(&a.totals.total_cost));
        Self {
            messages: all.messages,
            tools: tools(all),
            by_model: models(all),
            by_provider: providers(all),
            by_agent,
            by_channel,
            latency: latency(&all.latencies),
            daily_latency: daily_latency(all),
            model_daily: daily_models(all),
            daily: all.days.iter().map(|(date, day)| day_totals(date.to_string(), day)).collect(),
        }
    }
}

fn day_totals(date: String, day: &Day) -> DayTotals {
    let (tokens, cost) = day.spent.unwrap_or_default();
    let counts = day.messages.unwrap_or_default();
    DayTotals {
        date,
        tokens,
        cost,
        messages: counts.total,
        tool_calls: counts.tool_calls,
        errors: counts.errors,
    }
}

fn days<P, R>(
    tally: &Tally,
    part: impl Fn(&Day) -> Option<P>,
    row: impl Fn(String, P) -> R,
) -> Vec<R> {
    let with_part = tally.days.iter().filter_map(|(date, day)| Some((date, part(day)?)));
    with_part.map(|(date, part)| row(date.to_string(), part)).collect()
}

/// The UTC day of a quarter hour and its number in it.
fn place(quarter: u64) -> (String, u64) {
    (Zone::utc().day(quarter.saturating_mul(QUARTER_MS)).to_string(), quarter % QUARTERS_OF_DAY)
}

fn quarter_messages(tally: &Tally) -> Vec<QuarterMessages> {
    let rows = tally.quarters.iter().filter_map(|(quarter, row)| {
        let (date, quarter_index) = place(*quarter);
        Some(QuarterMessages { date, quarter_index, counts: row.messages? })
    });
    rows.collect()
}

fn quarter_tokens(tally: &Tally) -> Vec<QuarterTokens> {
    let rows = tally.quarters.iter().filter_map(|(quarter, row)| {
        let (date, quarter_index) = place(*quarter);
        let spent = row.spent?;
        Some(QuarterTokens {
            date,
            quarter_index,
            input: spent.input,
            output: spent.output,
            cache_read: spent.cache_read,
            cache_write: spent.cache_write,
            total_tokens: spent.total_tokens,
            total_cost: spent.total_cost,
        })
    });
    rows.collect()
}

fn daily_latency(tally: &Tally) -> Vec<DayLatency> {
    days(tally, |day| latency(&day.latencies), |date, latency| DayLatency { date, latency })
}

/// Days in order, the dearest model of each first.
fn daily_models(tally: &Tally) -> Vec<DayModel> {
    let mut rows = Vec::new();
    for (date, day) in &tally.days {
        let row =
            |((provider, model), (tokens, cost, count)): (&ModelKey, &(u64, f64, u64))| DayModel {
                date: date.to_string(),
                provider: provider.clone(),
                model: model.clone(),
                tokens: *tokens,
                cost: *cost,
                count: *count,
            };
        let mut of_day: Vec<_> = day.models.iter().map(row).collect();
        sort::by(&mut of_day, |a, b| b.cost.total_cmp(&a.cost));
        rows.append(&mut of_day);
    }
    rows
}

fn models(tally: &Tally) -> Vec<ModelUsage> {
    let row = |((provider, model), (count, totals)): (&ModelKey, &(u64, Totals))| ModelUsage {
        provider: provider.clone(),
        model: Some(model.clone()),
        count: *count,
        totals: *totals,
    };
    dearest_first(tally.models.iter().map(row).collect())
}

fn providers(tally: &Tally) -> Vec<ModelUsage> {
    let mut sums: BTreeMap<&String, (u64, Totals)> = BTreeMap::new();
    for ((provider, _), (count, totals)) in &tally.models {
        let sum = sums.entry(provider).or_default();
        sum.0 += count;
        sum.1.merge(totals);
    }
    let row = |(provider, (count, totals)): (&String, (u64, Totals))| ModelUsage {
        provider: provider.clone(),
        model: None,
        count,
        totals,
    };
    dearest_first(sums.into_iter().map(row).collect())
}

fn dearest_first(mut rows: Vec<ModelUsage>) -> Vec<ModelUsage> {
    sort::by(&mut rows, |a, b| {
        let by_cost = b.totals.total_cost.total_cmp(&a.totals.total_cost);
        by_cost.then(b.totals.total_tokens.cmp(&a.totals.total_tokens))
    });
    rows
}

fn tools(tally: &Tally) -> ToolUsage {
    let row = |(name, count): (&String, &u64)| ToolCount { name: name.clone(), count: *count };
    let mut tools: Vec<_> = tally.tools.iter().map(row).collect();
    sort::by_key(&mut tools, |tool| std::cmp::Reverse(tool.count));
    ToolUsage { total_calls: tally.tools.values().sum(), unique_tools: tally.tools.len(), tools }
}

fn latency(values: &[u64]) -> Option<Latency> {
    let mut sorted = values.to_vec();
    sort::plain(&mut sorted);
    let count = sorted.len();
    let rank = count.saturating_mul(95).div_ceil(100).checked_sub(1)?;
    // Each value is at most half a day, so the sum is exact.
    #[allow(clippy::cast_precision_loss)]
    let avg_ms = sorted.iter().sum::<u64>() as f64 / count as f64;
    Some(Latency {
        count,
        avg_ms,
        p95_ms: *sorted.get(rank)?,
        min_ms: *sorted.first()?,
        max_ms: *sorted.last()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn latency_is_summed_up_as_recorded() {
        let found = serde_json::to_value(latency(&[281, 8058, 8549, 86]).unwrap()).unwrap();
        let recorded =
            json!({"count": 4, "avgMs": 4243.5, "p95Ms": 8549, "minMs": 86, "maxMs": 8549});
        assert_eq!(found, recorded);
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(latency(&hundred).unwrap().p95_ms, 95);
        assert!(latency(&[]).is_none());
    }

    #[test]
    fn an_empty_session_looks_as_recorded() {
        let usage = SessionUsage::new("id".into(), "/f".into(), &Tally::default());
        let recorded = json!({
            "sessionId": "id", "sessionFile": "/f", "activityDates": [], "dailyBreakdown": [],
            "dailyMessageCounts": [],
            "messageCounts": {"total": 0, "user": 0, "assistant": 0, "toolCalls": 0,
                "toolResults": 0, "errors": 0},
            "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
            "totalCost": 0, "inputCost": 0, "outputCost": 0, "cacheReadCost": 0,
            "cacheWriteCost": 0, "missingCostEntries": 0,
        });
        assert_eq!(serde_json::to_value(usage).unwrap(), recorded);
    }
}
