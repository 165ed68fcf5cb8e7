//! What models refuse to be told.
//!
//! Owns: which members of a body a model has refused lately, and taking them out. Promises:
//! each is believed to be refused with the value that it had, and only for a while. Must not:
//! judge what a provider says; `ProviderError` does.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::{ModelInfo, ProviderError};

/// How long a refusal is believed, in milliseconds: the server may have another model of this
/// name by then.
const BELIEVED_MS: u64 = 60 * 60 * 1000;
/// Most refusals that are remembered. One that is forgotten costs a request.
const MOST: usize = 1000;

/// What models have refused lately.
#[derive(Default)]
pub struct Refusals {
    hasher: RandomState,
    /// Until when each is believed. Model, member and value are one number.
    believed: Mutex<HashMap<u64, u64>>,
}

impl Refusals {
    /// For a request to `model` that can do without these members of its body. What stands in
    /// an object is named with it: `object.member`.
    pub const fn of<'a>(
        &'a self,
        model: &'a ModelInfo,
        members: &'static [&'static str],
        now_ms: u64,
    ) -> LeftOut<'a> {
        LeftOut { lately: self, model, members, now_ms, refused: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.believed.lock().is_empty()
    }

    fn has(&self, told: u64, now_ms: u64) -> bool {
        self.believed.lock().get(&told).is_some_and(|until_ms| now_ms < *until_ms)
    }

    fn believe(&self, refused: &[u64], now_ms: u64) {
        let mut believed = self.believed.lock();
        if believed.len().saturating_add(refused.len()) > MOST {
            believed.clear();
        }
        let until_ms = now_ms.saturating_add(BELIEVED_MS);
        believed.extend(refused.iter().map(|told| (*told, until_ms)));
    }
}

/// What a request does without.
pub struct LeftOut<'a> {
    lately: &'a Refusals,
    model: &'a ModelInfo,
    members: &'static [&'static str],
    now_ms: u64,
    /// What the model has refused of this request.
    refused: Vec<u64>,
}

impl LeftOut<'_> {
    /// `body` without what the model has refused lately, or of this request.
    pub fn without(&self, mut body: Value) -> Value {
        // Nearly always there is nothing, and tools are long.
        if !self.refused.is_empty() || !self.lately.is_empty() {
            take_out(self.members, &mut body, &|member, value| {
                let told = self.told(member, value);
                self.refused.contains(&told) || self.lately.has(told, self.now_ms)
            });
        }
        body
    }

    /// Takes out of `body` what `error` refuses. Whether there was any of it.
    pub fn take(&mut self, body: &mut Value, error: &ProviderError) -> bool {
        let taken = take_out(self.members, body, &|member, _| error.refuses(member));
        for (member, value) in &taken {
            tracing::warn!(model = %self.model.id, %error, "asked again without {member}");
            let told = self.told(member, value);
            self.refused.push(told);
        }
        !taken.is_empty()
    }

    /// The model takes what is left, so it is not told the rest for a while.
    pub fn note(&self) {
        if !self.refused.is_empty() {
            self.lately.believe(&self.refused, self.now_ms);
        }
    }

    fn told(&self, member: &str, value: &Value) -> u64 {
        self.lately.hasher.hash_one((&self.model.base_url, &self.model.id, member, value))
    }
}

/// Takes those of these members that are meant out of `body`. Gives them.
fn take_out(
    members: &[&'static str],
    body: &mut Value,
    is_meant: &dyn Fn(&str, &Value) -> bool,
) -> Vec<(&'static str, Value)> {
    let mut taken = Vec::new();
    for member in members.iter().copied() {
        let Some((object, name)) = place(body, member) else { continue };
        if object.get(name).is_some_and(|value| is_meant(member, value)) {
            taken.extend(object.remove(name).map(|value| (member, value)));
        }
    }
    taken
}

/// The object that such a member stands in, and its name there.
fn place<'a>(
    body: &'a mut Value,
    member: &'static str,
) -> Option<(&'a mut Map<String, Value>, &'static str)> {
    match member.split_once('.') {
        Some((object, name)) => Some((body.get_mut(object)?.as_object_mut()?, name)),
        None => Some((body.as_object_mut()?, member)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::error::ErrorStyle;
    use crate::providers::testing::model;
    use crate::support::json;

    const MEMBERS: &[&str] = &["temperature", "generationConfig.thinkingConfig"];

    fn refusal(text: &str) -> ProviderError {
        let body = json!({"error": {"message": text}}).to_string();
        ProviderError::from_status(ErrorStyle::OpenAi, 400, &body)
    }

    #[test]
    fn what_was_refused_is_left_out_with_its_value_for_a_while() {
        let (refusals, model) = (Refusals::default(), model("openai-completions"));
        let body = || json!({"temperature": 0.5, "model": "m"});
        let rest = json!({"model": "m"});
        let later =
            |model: &ModelInfo, now_ms, body| refusals.of(model, MEMBERS, now_ms).without(body);
        let mut left_out = refusals.of(&model, MEMBERS, 10);
        let mut sent = left_out.without(body());
        assert_eq!(sent, body());
        assert!(!left_out.take(&mut sent, &refusal("bad request")));
        assert!(left_out.take(&mut sent, &refusal("no temperature")));
        assert_eq!(sent, rest);
        assert!(!left_out.take(&mut sent, &refusal("no temperature")));
        assert_eq!(left_out.without(body()), rest);
        // Whether that was the reason is seen when the rest is answered.
        assert_eq!(later(&model, 10, body()), body());
        left_out.note();
        assert_eq!(later(&model, 10, body()), rest);
        assert_eq!(later(&model, 10 + BELIEVED_MS, body()), body());
        let warmer = json!({"temperature": 0.7, "model": "m"});
        assert_eq!(later(&model, 10, warmer.clone()), warmer);
        let other = ModelInfo { id: "mock-2".into(), ..model.clone() };
        assert_eq!(later(&other, 10, body()), body());
    }

    #[test]
    fn a_member_in_an_object_goes_without_the_others() {
        let (refusals, model) = (Refusals::default(), model("google-generative-ai"));
        let mut left_out = refusals.of(&model, MEMBERS, 0);
        let mut sent = json!({"generationConfig": {"maxOutputTokens": 9, "thinkingConfig": {}}});
        assert!(left_out.take(&mut sent, &refusal("Thinking is not enabled for this model")));
        assert_eq!(sent, json!({"generationConfig": {"maxOutputTokens": 9}}));
        assert!(!left_out.take(&mut json!({"generationConfig": 1}), &refusal("thinking")));
    }

    #[test]
    fn not_more_is_remembered_than_there_is_room_for() {
        let refusals = Refusals::default();
        for told in 0..2500 {
            refusals.believe(&[told], 0);
            assert!(refusals.has(told, 1) && refusals.believed.lock().len() <= MOST, "{told}");
        }
    }
}
