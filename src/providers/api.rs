//! A provider from what is peculiar to its API over HTTP.
//!
//! Owns: one call, from the request to the answer as it is read, for every
//! such API. Must not: retry; `Retry` does, but for one thing: what a server
//! refuses to be asked is left out and the rest asked again. Pictures and thoughts
//! are part of that: refused once, they would be refused with every later message.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::answer::Answer;
use super::error::{ErrorStyle, ProviderError};
use super::http::{EventStream, Framing, Http, Post};
use super::pictures::without_pictures;
use super::reader::{self, Reader};
use super::thoughts::without_thoughts;
use super::{EventSink, ModelInfo, ModelRequest, Provider};
use crate::protocol::message::AssistantMessage;
use crate::support::{BoxFuture, Clock};

/// What is peculiar to one API.
pub trait HttpApi: Send + Sync + 'static {
    /// How it writes its errors.
    const STYLE: ErrorStyle;
    /// How it writes its stream.
    const FRAMING: Framing = Framing::Events;
    /// Members of the body that some of its models refuse, and can do without.
    const DISPENSABLE: &'static [&'static str] = &[];
    /// What reads its stream.
    type Reader: Reader + Send;

    /// Where a request goes.
    fn url(model: &ModelInfo) -> String;

    /// The headers of a request, the credential among them.
    ///
    /// # Errors
    /// When there should be a credential, or there is one that cannot be sent.
    fn headers(model: &ModelInfo) -> Result<HeaderMap, ProviderError>;

    /// The body of a request.
    fn body(request: &ModelRequest) -> Value;

    /// A reader of the answer of `model` that began at this time.
    fn reader(model: &ModelInfo, began: u64) -> Self::Reader;
}

/// The adapter of an API.
pub struct HttpProvider<A> {
    http: Http,
    clock: Arc<dyn Clock>,
    api: PhantomData<A>,
}

impl<A: HttpApi> HttpProvider<A> {
    /// An adapter that calls through `http`.
    pub const fn new(http: Http, clock: Arc<dyn Clock>) -> Self {
        Self { http, clock, api: PhantomData }
    }

    async fn open(&self, request: &ModelRequest) -> Result<EventStream, ProviderError> {
        let model = &request.model;
        let mut request = Cow::Borrowed(request);
        let mut body = A::body(&request);
        loop {
            let post = Post {
                model,
                url: A::url(model),
                headers: A::headers(model)?,
                body: &body,
                style: A::STYLE,
                framing: A::FRAMING,
            };
            let error = match self.http.post(post).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let mut refused = A::DISPENSABLE.iter().filter(|name| error.refuses(name));
            let left_out = refused
                .find(|name| body.as_object_mut().is_some_and(|it| it.remove(**name).is_some()));
            if let Some(name) = left_out {
                tracing::warn!(model = %model.id, %error, "asked again without {name}");
                continue;
            }
            let (what, less) = if error.refuses_pictures() {
                ("pictures", without_pictures(&request))
            } else if error.refuses_thoughts() {
                ("thoughts", without_thoughts(&request))
            } else {
                return Err(error);
            };
            let Some(less) = less else { return Err(error) };
            tracing::warn!(model = %model.id, %error, "asked again without {what}");
            body = A::body(&less);
            request = Cow::Owned(less);
        }
    }
}

impl<A: HttpApi> Provider for HttpProvider<A> {
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        Box::pin(async move {
            let began = self.clock.now_ms();
            let stream = self.open(request).await?;
            let answer = Answer::new(&request.model, events, began).among(&request.messages);
            reader::run(stream, A::reader(&request.model, began), answer).await
        })
    }
}
