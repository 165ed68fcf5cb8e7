//! Updates of a bot, for who asks for them.

use serde_json::{Value, json};

#[derive(Default)]
pub struct Queue {
    /// The number of the next one.
    next: i64,
    /// Those before this were confirmed, and are given no more.
    confirmed: i64,
    updates: Vec<Value>,
    given: Vec<i64>,
}

impl Queue {
    pub fn starting_at(first: i64) -> Self {
        Self { next: first, ..Self::default() }
    }

    /// Forgets all that is waiting, and counts from here on.
    pub fn begin_anew(&mut self, first: i64) {
        let given = std::mem::take(&mut self.given);
        *self = Self { given, ..Self::starting_at(first) };
    }

    /// Adds one of a kind; its number.
    pub fn put(&mut self, kind: &str, what: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        let mut update = json!({"update_id": id});
        update[kind] = what;
        self.updates.push(update);
        id
    }

    /// Everything before is confirmed by asking for what follows. What is beyond the next
    /// one is a number of before: it confirms nothing, and all that waits is given.
    pub fn confirm(&mut self, offset: i64) {
        if offset <= self.next {
            self.confirmed = self.confirmed.max(offset);
        }
    }

    pub fn confirmed(&self) -> i64 {
        self.confirmed
    }

    pub fn give(&mut self, limit: usize) -> Vec<Value> {
        let id = |update: &Value| update["update_id"].as_i64().unwrap();
        let waiting = self.updates.iter().filter(|update| id(update) >= self.confirmed);
        let fresh: Vec<_> = waiting.take(limit).cloned().collect();
        self.given.extend(fresh.iter().map(id));
        fresh
    }

    /// The numbers of all that were given, as often as they were.
    pub fn given(&self) -> Vec<i64> {
        self.given.clone()
    }
}
