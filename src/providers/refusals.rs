//! What models refuse to be told.
//!
//! Owns: which members of a body a model has refused lately, and taking them out; which
//! thoughts and pictures of a conversation it has not taken. Promises: each is believed to be
//! refused with the value that it had, by that server to whoever has that credential, and only
//! for a while. Must not: judge what a provider says; `ProviderError` does.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::pictures::newest_picture;
use super::thoughts::newest_answer;
use super::{ModelInfo, ModelRequest, ProviderError};

/// How long a refusal is believed, in milliseconds: the server may have another model of this
/// name by then.
const BELIEVED_MS: u64 = 60 * 60 * 1000;
/// Most refusals that are remembered. One that is forgotten costs a request.
const MOST: usize = 1000;
/// What stands for the member of a refusal of thoughts; no body has one of this name.
pub const THOUGHTS: &str = "thoughts of the conversation";
/// The same of pictures.
pub const PICTURES: &str = "pictures of the conversation";

/// What models have refused lately.
#[derive(Default)]
pub struct Refusals {
    hasher: RandomState,
    /// Model, credential, member and value are one number.
    believed: Mutex<HashMap<u64, Believed>>,
}

/// A refusal.
#[derive(Clone, Copy)]
struct Believed {
    /// Until when it is believed.
    until_ms: u64,
    /// Of thoughts and pictures, the time of the newest message that has some of them.
    newest: u64,
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
        LeftOut { lately: self, model, members, now_ms, refused: Vec::new(), parts: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.believed.lock().is_empty()
    }

    /// The time of the newest message that is meant by this refusal, if it is believed.
    fn newest(&self, told: u64, now_ms: u64) -> Option<u64> {
        let believed = self.believed.lock().get(&told).copied();
        believed.filter(|it| now_ms < it.until_ms).map(|it| it.newest)
    }

    /// Takes what was refused, with the time of the newest message that each is about.
    fn believe(&self, refused: impl ExactSizeIterator<Item = (u64, u64)>, now_ms: u64) {
        let mut believed = self.believed.lock();
        believed.retain(|_, it| now_ms < it.until_ms);
        if believed.len().saturating_add(refused.len()) > MOST {
            believed.clear();
        }
        let until_ms = now_ms.saturating_add(BELIEVED_MS);
        believed.extend(refused.map(|(told, newest)| (told, Believed { until_ms, newest })));
    }
}

/// What a request does without.
pub struct LeftOut<'a> {
    lately: &'a Refusals,
    model: &'a ModelInfo,
    members: &'static [&'static str],
    now_ms: u64,
    /// What the model has refused of this request, and whether it would refuse it of others.
    refused: Vec<(u64, bool)>,
    /// The same of its thoughts and pictures, and the newest message that has some.
    parts: Vec<(u64, u64)>,
}

impl LeftOut<'_> {
    /// `body` without what the model has refused lately, or of this request.
    pub fn without(&self, mut body: Value) -> Value {
        // Nearly always there is nothing, and tools are long.
        if !self.refused.is_empty() || !self.lately.is_empty() {
            take_out(self.members, &mut body, &|member, value| {
                let told = self.told(member, value);
                let is_refused = self.refused.iter().any(|(refused, _)| *refused == told);
                is_refused || self.lately.newest(told, self.now_ms).is_some()
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
            // Another conversation, or the next turn of this one, may have what this one lacks.
            self.refused.push((told, !error.misses_thought()));
        }
        !taken.is_empty()
    }

    /// The newest message of this conversation whose thoughts, or pictures, the model has not
    /// taken lately. What was thought or shown since may be taken.
    pub fn until(&self, part: &str, request: &ModelRequest) -> Option<u64> {
        if self.lately.is_empty() {
            return None;
        }
        self.lately.newest(self.told(part, &request.session_id), self.now_ms)
    }

    /// The model does not take what was thought, or shown, in this conversation.
    pub fn take_part(&mut self, part: &str, request: &ModelRequest) {
        let newest =
            if part == PICTURES { newest_picture(request) } else { newest_answer(request) };
        let told = self.told(part, &request.session_id);
        self.parts.extend(newest.map(|newest| (told, newest)));
    }

    /// The model takes what is left, so it is not told the rest for a while.
    pub fn note(&self) {
        let lasting = self.refused.iter().filter(|(_, lasts)| *lasts);
        let members = lasting.map(|(told, _)| (*told, 0));
        let refused: Vec<_> = members.chain(self.parts.iter().copied()).collect();
        if !refused.is_empty() {
            self.lately.believe(refused.into_iter(), self.now_ms);
        }
    }

    /// What another account is refused may be allowed to this one.
    fn told(&self, member: &str, value: &impl Hash) -> u64 {
        let mut hasher = self.lately.hasher.build_hasher();
        let ModelInfo { base_url, id, api_key, headers, options, .. } = self.model;
        (base_url, id, member, value).hash(&mut hasher);
        let auth = options.auth.iter().map(|auth| &auth.value);
        for secret in api_key.iter().chain(headers.values()).chain(auth) {
            secret.expose().hash(&mut hasher);
        }
        hasher.finish()
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
    use crate::protocol::message::{AgentMessage, AssistantMessage};
    use crate::providers::error::ErrorStyle;
    use crate::providers::testing::{model, request_to, user};
    use crate::support::{Secret, json};

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
        let elsewhere = ModelInfo { base_url: "http://elsewhere".into(), ..model.clone() };
        let account = model.with_key(Secret::new("other-key"));
        let token = model.with_bearer(&Secret::new("token"));
        for other in [other, elsewhere, account, token] {
            assert_eq!(later(&other, 10, body()), body());
        }
    }

    #[test]
    fn thoughts_that_were_not_taken_back_are_known_for_a_while_in_their_conversation() {
        let answer = |timestamp: u64| {
            let answer = AssistantMessage::from_gateway("text", timestamp);
            AgentMessage::Assistant(answer)
        };
        let model = model("anthropic-messages");
        let request = request_to(model.clone(), vec![answer(3), answer(7), user("go on")]);
        let refusals = Refusals::default();
        let until = |request: &ModelRequest, now_ms| {
            refusals.of(&request.model, MEMBERS, now_ms).until(THOUGHTS, request)
        };
        let mut left_out = refusals.of(&model, MEMBERS, 10);
        left_out.take_part(THOUGHTS, &request);
        assert_eq!(until(&request, 10), None);
        left_out.note();
        assert_eq!(until(&request, 10), Some(7));
        assert_eq!(until(&request, 10 + BELIEVED_MS), None);
        assert_eq!(refusals.of(&model, MEMBERS, 10).until(PICTURES, &request), None);
        let elsewhere = ModelRequest { session_id: "other".into(), ..request };
        assert_eq!(until(&elsewhere, 10), None);
    }

    #[test]
    fn what_only_this_conversation_forbids_is_told_to_the_next_one() {
        let (refusals, model) = (Refusals::default(), model("anthropic-messages"));
        let body = || json!({"thinking": {"type": "enabled"}, "model": "m"});
        for (text, is_told) in [
            ("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`", true),
            ("The `reasoning_content` in the thinking mode must be passed back to the API.", true),
            ("thinking: Extra inputs are not permitted", false),
        ] {
            let mut left_out = refusals.of(&model, &["thinking"], 10);
            let mut sent = body();
            assert!(left_out.take(&mut sent, &refusal(text)));
            // This call goes without it, also when it is put together again.
            assert_eq!(left_out.without(body()), json!({"model": "m"}));
            left_out.note();
            let later = refusals.of(&model, &["thinking"], 10).without(body());
            assert_eq!(later == body(), is_told, "{text}");
        }
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
            refusals.believe([(told, 0)].into_iter(), 0);
            let is_known = refusals.newest(told, 1).is_some();
            assert!(is_known && refusals.believed.lock().len() <= MOST, "{told}");
        }
    }

    #[test]
    fn what_is_believed_no_more_is_forgotten() {
        let refusals = Refusals::default();
        refusals.believe([(1, 0), (2, 0)].into_iter(), 0);
        refusals.believe([(3, 0)].into_iter(), BELIEVED_MS);
        assert_eq!(refusals.believed.lock().keys().copied().collect::<Vec<_>>(), [3]);
    }
}
