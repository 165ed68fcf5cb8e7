//! What several calls of a model have used together.

use crate::protocol::message::Usage;

/// The sum of two.
pub(super) fn add(sum: &Usage, more: &Usage) -> Usage {
    let mut sum = sum.clone();
    sum.input += more.input;
    sum.output += more.output;
    sum.cache_read += more.cache_read;
    sum.cache_write += more.cache_write;
    sum.total_tokens += more.total_tokens;
    sum.cost.input += more.cost.input;
    sum.cost.output += more.cost.output;
    sum.cost.cache_read += more.cost.cache_read;
    sum.cost.cache_write += more.cost.cache_write;
    sum.cost.total += more.cost.total;
    sum
}
