//! Asking for vectors.
//!
//! Owns: batches, retries, which credential is tried. Promises: what goes wrong
//! here makes no credential rest for other models.

use std::sync::Arc;

use super::super::call_watch::CallWatch;
use super::super::credentials::{Credential, FailureReason};
use super::super::http::Post;
use super::super::{ErrorStyle, Failover, ModelInfo, ProviderError, ProviderErrorKind};
use super::choice::{EmbeddingApi, EmbeddingModel};
use super::{Batch, Embeddings, openai, others};
use crate::providers::api::HttpApi;
use crate::providers::google::Google;
use crate::providers::http::{Framing, bearer};
use crate::support::sort;
use crate::telemetry::traces;

/// The vectors of a batch with all their digits are a third of it.
const ANSWER_MAX: usize = 32 * 1024 * 1024;

impl EmbeddingApi {
    /// Most texts of one request.
    const fn texts_max(self) -> usize {
        match self {
            Self::Gemini => 100,
            // No provider has a bound below it, nor does anybody ask for more.
            _ => 512,
        }
    }

    /// Most characters of one request, each of which may be a token.
    const fn characters_max(self) -> usize {
        match self {
            Self::Mistral => 16_000,
            _ => 100_000,
        }
    }
}

/// The texts in pieces that a provider takes.
fn batches(api: EmbeddingApi, texts: &[String]) -> Vec<&[String]> {
    let (mut found, mut begin, mut characters) = (Vec::new(), 0, 0);
    for (index, text) in texts.iter().enumerate() {
        let count = text.chars().count();
        let is_full = index - begin >= api.texts_max();
        if index > begin && (is_full || characters + count > api.characters_max()) {
            found.push(texts.get(begin..index).unwrap_or_default());
            (begin, characters) = (index, 0);
        }
        characters += count;
    }
    found.extend(texts.get(begin..).filter(|rest| !rest.is_empty()));
    found
}

impl Failover {
    /// Whether an agent could be let in by the provider of this model.
    pub async fn has_credential(&self, agent: &str, model: &EmbeddingModel) -> bool {
        model.info.has_credential() || self.credentials().has_profile(agent, &model.info).await
    }

    /// The vectors of these texts, made by `model` for `agent`, of so many numbers
    /// if the provider has a choice.
    ///
    /// # Errors
    /// When they are not to be had.
    pub async fn embed(
        &self,
        agent: &str,
        model: &EmbeddingModel,
        texts: &[String],
        dimensions: Option<u32>,
    ) -> Result<Embeddings, ProviderError> {
        // Nobody closes it.
        let _place = self.catalog().adapters().embedding().acquire().await.ok();
        let info = Arc::new(model.info.clone());
        let mut last = ProviderError::no_api_key(&info.provider);
        for credential in self.ways_in(agent, model, &info).await {
            let reached = credential.apply(&info);
            let began_ms = self.credentials().now_ms();
            let call = CallWatch::of_embeddings(&info);
            let asked = self.ask_all(model.api, &reached, texts, dimensions);
            let answered = traces::within(call.context(), asked).await;
            call.embedded(&answered);
            let error = match answered {
                Ok(embeddings) => {
                    if !model.is_elsewhere {
                        self.credentials().succeeded(&credential, &info);
                    }
                    return Ok(embeddings);
                }
                Err(error) => error,
            };
            let reason = FailureReason::of(&error);
            // A key that may not do this may answer all the same.
            let is_about_model = !matches!(reason, FailureReason::Auth | FailureReason::Billing);
            if is_about_model && !model.is_elsewhere {
                self.credentials().failed(&credential, &info, &error, began_ms);
            }
            if !reason.rotates() {
                return Err(error);
            }
            last = error;
        }
        Err(last)
    }

    /// The credentials to try, those that rest last.
    async fn ways_in(
        &self,
        agent: &str,
        model: &EmbeddingModel,
        info: &Arc<ModelInfo>,
    ) -> Vec<Credential> {
        let credentials = self.credentials();
        let mut all = credentials.for_model(agent, info).await;
        if !model.is_elsewhere {
            sort::by_key(&mut all, |it| credentials.rest(it, info).map(|rest| rest.until_ms));
        }
        all
    }

    async fn ask_all(
        &self,
        api: EmbeddingApi,
        model: &ModelInfo,
        texts: &[String],
        dimensions: Option<u32>,
    ) -> Result<Embeddings, ProviderError> {
        let mut all = Embeddings { vectors: Vec::with_capacity(texts.len()), tokens: 0 };
        for texts in batches(api, texts) {
            let made = self.ask_again(api, model, Batch { texts, dimensions }).await?;
            if made.vectors.len() != texts.len() {
                let (got, sent) = (made.vectors.len(), texts.len());
                return Err(wrong(&format!("the provider sent {got} vectors for {sent} texts")));
            }
            all.vectors.extend(made.vectors);
            all.tokens = all.tokens.saturating_add(made.tokens);
        }
        let length = all.vectors.first().map_or(0, Vec::len);
        if all.vectors.iter().any(|vector| vector.is_empty() || vector.len() != length) {
            return Err(wrong("the provider sent vectors of different lengths, or empty ones"));
        }
        // They go on as f32.
        let is_finite = |number: &f64| number.abs() <= f64::from(f32::MAX);
        if !all.vectors.iter().flatten().all(is_finite) {
            return Err(wrong("the provider sent numbers that are not finite"));
        }
        Ok(all)
    }

    async fn ask_again(
        &self,
        api: EmbeddingApi,
        model: &ModelInfo,
        batch: Batch<'_>,
    ) -> Result<Embeddings, ProviderError> {
        let retry = self.catalog().adapters().retry();
        let mut attempt = 1;
        loop {
            let error = match self.ask(api, model, batch).await {
                Ok(made) => return Ok(made),
                Err(error) => error,
            };
            let Some(delay) = retry.delay(attempt, &error) else { return Err(error) };
            tracing::info!(model = %model.reference(), attempt, %error, "vectors are asked for again");
            crate::telemetry::metrics::NUMBERS.retries.count();
            tokio::time::sleep(delay).await;
            attempt += 1;
        }
    }

    async fn ask(
        &self,
        api: EmbeddingApi,
        model: &ModelInfo,
        batch: Batch<'_>,
    ) -> Result<Embeddings, ProviderError> {
        let (base, id) = (&model.base_url, &model.id);
        let (url, body, style) = match api {
            EmbeddingApi::OpenAi | EmbeddingApi::Voyage | EmbeddingApi::Mistral => {
                let body = openai::body(api, id, batch);
                (format!("{base}/embeddings"), body, ErrorStyle::OpenAi)
            }
            EmbeddingApi::Gemini => {
                let body = others::gemini_body(&Google::path(model), batch);
                (Google::method(model, "batchEmbedContents"), body, ErrorStyle::Google)
            }
            EmbeddingApi::Ollama => {
                (format!("{base}/api/embed"), others::ollama_body(id, batch), ErrorStyle::Ollama)
            }
        };
        let headers = if api == EmbeddingApi::Gemini { Google::headers } else { bearer };
        let (headers, framing) = (headers(model)?, Framing::Lines);
        let post = Post { model, url, headers, body: &body, style, framing };
        let bytes = self.catalog().adapters().http().ask(post, ANSWER_MAX).await?;
        let made = match api {
            EmbeddingApi::OpenAi | EmbeddingApi::Voyage | EmbeddingApi::Mistral => {
                openai::read(&bytes)
            }
            EmbeddingApi::Gemini => others::gemini_read(&bytes),
            EmbeddingApi::Ollama => others::ollama_read(&bytes),
        };
        made.ok_or_else(|| wrong("the provider did not answer with vectors of numbers"))
    }
}

fn wrong(text: &str) -> ProviderError {
    ProviderError::new(ProviderErrorKind::Protocol, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_as_large_as_the_provider_takes_and_keep_the_order() {
        let texts: Vec<_> = (0..250).map(|index| index.to_string()).collect();
        let sizes = |api, texts: &[String]| -> Vec<usize> {
            batches(api, texts).iter().map(|batch| batch.len()).collect()
        };
        assert_eq!(sizes(EmbeddingApi::Gemini, &texts), [100, 100, 50]);
        assert_eq!(batches(EmbeddingApi::Gemini, &texts).concat(), texts);
        assert_eq!(sizes(EmbeddingApi::OpenAi, &texts), [250]);
        let long = vec!["x".repeat(8000); 5];
        assert_eq!(sizes(EmbeddingApi::Mistral, &long), [2, 2, 1]);
        assert_eq!(sizes(EmbeddingApi::Mistral, &["x".repeat(50_000)]), [1]);
        assert!(batches(EmbeddingApi::OpenAi, &[]).is_empty());
    }
}
