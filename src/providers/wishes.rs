//! How somebody would like a model to answer.
//!
//! Promises: nobody gets more than the configuration allows. Must not: send a
//! model what it refuses.

use std::sync::Arc;

use super::{Api, ModelInfo};

/// The least that the Responses API of OpenAI takes.
const RESPONSES_LEAST: u64 = 16;
/// The most that Anthropic takes.
const ANTHROPIC_WARMEST: f64 = 1.0;

/// What a caller wishes of each call of a model.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AnswerWishes {
    /// Tokens that an answer may have, if the model allows so many.
    pub max_tokens: Option<u64>,
    /// How freely to choose words, from 0 to 2.
    pub temperature: Option<f64>,
}

impl AnswerWishes {
    /// The same model, to be asked like this.
    pub fn of(self, model: Arc<ModelInfo>) -> Arc<ModelInfo> {
        let temperature = self.temperature.filter(|_| takes_temperature(&model));
        if self.max_tokens.is_none() && temperature.is_none() {
            return model;
        }
        let mut model = Arc::unwrap_or_clone(model);
        let (limit, api) = (model.answer_limit(), model.api);
        let params = &mut Arc::make_mut(&mut model.options).params;
        if let Some(wanted) = self.max_tokens {
            let least = if api == Api::OpenAiResponses { RESPONSES_LEAST } else { 1 };
            params.max_tokens = Some(wanted.max(least).min(limit));
        }
        if let Some(wanted) = temperature {
            let warmest = if api == Api::AnthropicMessages { ANTHROPIC_WARMEST } else { 2.0 };
            params.temperature = Some(wanted.clamp(0.0, warmest));
        }
        Arc::new(model)
    }
}

/// Whether a model may be asked for a temperature unseen: those of OpenAI that
/// think refuse the whole call.
fn takes_temperature(model: &ModelInfo) -> bool {
    let is_like_openai = matches!(model.api, Api::OpenAiCompletions | Api::OpenAiResponses);
    !(is_like_openai && model.reasoning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::model;

    fn asked(wishes: AnswerWishes, model: ModelInfo) -> (u64, Option<f64>) {
        let asked = wishes.of(Arc::new(model));
        (asked.answer_limit(), asked.options.params.temperature)
    }

    #[test]
    fn nobody_gets_more_than_the_model_allows() {
        let wishes = |max_tokens, temperature| AnswerWishes {
            max_tokens: Some(max_tokens),
            temperature: Some(temperature),
        };
        let plain = || model("openai-completions");
        assert_eq!(asked(wishes(7, 0.5), plain()), (7, Some(0.5)));
        assert_eq!(asked(wishes(1_000_000, 1.5), plain()), (8192, Some(1.5)));
        let mut configured = plain();
        Arc::make_mut(&mut configured.options).params.max_tokens = Some(100);
        assert_eq!(asked(wishes(200, 0.0), configured), (100, Some(0.0)));
        assert_eq!(asked(wishes(1, 0.5), model("openai-responses")), (16, Some(0.5)));
        assert_eq!(asked(wishes(9, 1.5), model("anthropic-messages")), (9, Some(1.0)));
        assert_eq!(asked(AnswerWishes::default(), plain()), (8192, None));
    }

    #[test]
    fn a_model_of_openai_that_thinks_is_asked_for_no_temperature() {
        let warm = AnswerWishes { max_tokens: None, temperature: Some(0.2) };
        for (api, expected) in [
            ("openai-completions", None),
            ("openai-responses", None),
            ("google-generative-ai", Some(0.2)),
        ] {
            let model = ModelInfo { reasoning: true, ..model(api) };
            assert_eq!(asked(warm, model).1, expected, "{api}");
        }
    }
}
