//! Adding up facts by day, quarter hour, model and tool.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::{Serialize, Serializer};

use super::range::{QUARTER_MS, Zone};
use super::service::Prices;
use crate::protocol::message::{Cost, Usage};
use crate::store::{Activity, Spending, UsageFacts};

/// Tokens and US dollars.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Prompt tokens that were not served from a cache.
    pub input: u64,
    /// Tokens of answers.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
    /// All of them, by the provider's own count where it gives one.
    pub total_tokens: u64,
    /// All of the price.
    #[serde(serialize_with = "number")]
    pub total_cost: f64,
    /// For `input`.
    #[serde(serialize_with = "number")]
    pub input_cost: f64,
    /// For `output`.
    #[serde(serialize_with = "number")]
    pub output_cost: f64,
    /// For `cache_read`.
    #[serde(serialize_with = "number")]
    pub cache_read_cost: f64,
    /// For `cache_write`.
    #[serde(serialize_with = "number")]
    pub cache_write_cost: f64,
    /// Answers whose price nobody knows.
    pub missing_cost_entries: u64,
}

impl Totals {
    /// Adds answers; `missing` says for how many the price is not known.
    pub(super) fn add(&mut self, usage: &Usage, missing: u64) {
        self.input = self.input.saturating_add(usage.input);
        self.output = self.output.saturating_add(usage.output);
        self.cache_read = self.cache_read.saturating_add(usage.cache_read);
        self.cache_write = self.cache_write.saturating_add(usage.cache_write);
        self.total_tokens = self.total_tokens.saturating_add(usage.total_tokens);
        self.total_cost += usage.cost.total;
        self.input_cost += usage.cost.input;
        self.output_cost += usage.cost.output;
        self.cache_read_cost += usage.cost.cache_read;
        self.cache_write_cost += usage.cost.cache_write;
        self.missing_cost_entries += missing;
    }

    /// The same of one more.
    pub fn merge(&mut self, other: &Self) {
        let cost = Cost {
            input: other.input_cost,
            output: other.output_cost,
            cache_read: other.cache_read_cost,
            cache_write: other.cache_write_cost,
            total: other.total_cost,
            ..Cost::default()
        };
        let usage = Usage {
            input: other.input,
            output: other.output,
            cache_read: other.cache_read,
            cache_write: other.cache_write,
            total_tokens: other.total_tokens,
            cost,
            ..Usage::default()
        };
        self.add(&usage, other.missing_cost_entries);
    }
}

/// JavaScript writes whole numbers without a fraction.
#[allow(clippy::trivially_copy_pass_by_ref, clippy::cast_possible_truncation)] // serde's form; guarded
pub(super) fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

/// Numbers of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageCounts {
    /// Messages of users and answers.
    pub total: u64,
    /// Messages of users.
    pub user: u64,
    /// Answers.
    pub assistant: u64,
    /// Tool calls in them.
    pub tool_calls: u64,
    /// Answers of tools.
    pub tool_results: u64,
    /// What failed or was stopped.
    pub errors: u64,
}

impl MessageCounts {
    fn add(&mut self, row: &Activity) {
        self.total += row.user + row.assistant;
        self.user += row.user;
        self.assistant += row.assistant;
        self.tool_calls += row.tool_calls;
        self.tool_results += row.tool_results;
        self.errors += row.errors;
    }
}

/// A model by provider and name.
pub(super) type ModelKey = (String, String);

/// One day.
#[derive(Debug, Clone, Default)]
pub(super) struct Day {
    pub messages: Option<MessageCounts>,
    pub latencies: Vec<u64>,
    /// Tokens without those that a provider counts on its own, and dollars.
    pub spent: Option<(u64, f64)>,
    pub models: BTreeMap<ModelKey, (u64, f64, u64)>,
}

/// One quarter hour.
#[derive(Debug, Clone, Default)]
pub(super) struct Quarter {
    pub messages: Option<MessageCounts>,
    pub spent: Option<Totals>,
}

/// Everything that is reported of one session, or of several.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub totals: Totals,
    pub messages: MessageCounts,
    pub first_at: Option<u64>,
    pub last_at: Option<u64>,
    pub days: BTreeMap<Date, Day>,
    pub quarters: BTreeMap<u64, Quarter>,
    pub models: BTreeMap<ModelKey, (u64, Totals)>,
    pub tools: BTreeMap<String, u64>,
    pub latencies: Vec<u64>,
}

impl Tally {
    /// Takes in what is known of a transcript.
    pub fn add(&mut self, facts: &UsageFacts, zone: &Zone, prices: &Prices) {
        for row in &facts.activity {
            self.add_activity(row, zone);
        }
        for row in &facts.spending {
            self.add_spending(row, zone, prices);
        }
        for row in &facts.tools {
            *self.tools.entry(row.name.clone()).or_default() += row.count;
        }
    }

    fn add_activity(&mut self, row: &Activity, zone: &Zone) {
        self.messages.add(row);
        self.first_at = Some(self.first_at.map_or(row.first_at, |at| at.min(row.first_at)));
        self.last_at = Some(self.last_at.map_or(row.last_at, |at| at.max(row.last_at)));
        self.latencies.extend(&row.latencies);
        let day = self.days.entry(zone.day(row.quarter * QUARTER_MS)).or_default();
        day.messages.get_or_insert_default().add(row);
        day.latencies.extend(&row.latencies);
        let quarter = self.quarters.entry(row.quarter).or_default();
        quarter.messages.get_or_insert_default().add(row);
    }

    fn add_spending(&mut self, row: &Spending, zone: &Zone, prices: &Prices) {
        let (usage, missing) = priced(row, prices);
        let tokens = [usage.output, usage.cache_read, usage.cache_write]
            .into_iter()
            .fold(usage.input, u64::saturating_add);
        let key = (row.provider.clone(), row.model.clone());
        self.totals.add(&usage, missing);
        let day = self.days.entry(zone.day(row.quarter * QUARTER_MS)).or_default();
        let spent = day.spent.get_or_insert_default();
        *spent = (spent.0.saturating_add(tokens), spent.1 + usage.cost.total);
        let quarter = self.quarters.entry(row.quarter).or_default();
        quarter.spent.get_or_insert_default().add(&usage, missing);
        if row.provider.is_empty() && row.model.is_empty() {
            return;
        }
        let of_day = day.models.entry(key.clone()).or_default();
        *of_day =
            (of_day.0.saturating_add(tokens), of_day.1 + usage.cost.total, of_day.2 + row.count);
        let (count, totals) = self.models.entry(key).or_default();
        *count += row.count;
        totals.add(&usage, missing);
    }
}

/// What a model was asked, with the price in the messages, else that of the
/// catalogue; and for how many answers there is none.
pub(super) fn priced(row: &Spending, prices: &Prices) -> (Usage, u64) {
    if row.has_cost {
        return (row.usage.clone(), 0);
    }
    let cost = prices(&row.provider, &row.model, &row.usage);
    let missing = if cost.is_none() { row.count } else { 0 };
    (Usage { cost: cost.unwrap_or_default(), ..row.usage.clone() }, missing)
}
