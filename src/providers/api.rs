//! A provider from what is peculiar to its API over HTTP.
//!
//! Owns: one call, from the request to the answer as it is read, for every
//! such API. Must not: retry; `Retry` does, but for one thing: what a server
//! refuses to be asked is left out and the rest asked again. Pictures and thoughts
//! are part of that: refused once, they would be refused with every later message.

use std::borrow::Cow;
use std::sync::Arc;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::answer::Answer;
use super::error::{ErrorStyle, ProviderError};
use super::http::{EventStream, Framing, Http, Post};
use super::pictures::without_pictures;
use super::reader::{self, Reader};
use super::refusals::{PICTURES, Refusals, THOUGHTS};
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
    /// Members of the body that some of its models refuse, and can do without. What stands in
    /// an object is named with it.
    const DISPENSABLE: &'static [&'static str] = &[];
    /// What reads its stream.
    type Reader: Reader + Send + 'static;

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

/// The adapter of an API. What is peculiar to it are values here, so that a call is compiled
/// once instead of once for each API.
pub struct HttpProvider {
    http: Http,
    clock: Arc<dyn Clock>,
    refusals: Refusals,
    style: ErrorStyle,
    framing: Framing,
    dispensable: &'static [&'static str],
    url: fn(&ModelInfo) -> String,
    headers: fn(&ModelInfo) -> Result<HeaderMap, ProviderError>,
    body: fn(&ModelRequest) -> Value,
    reader: fn(&ModelInfo, u64) -> Box<dyn Reader + Send>,
}

impl HttpProvider {
    /// An adapter of `A` that calls through `http`.
    pub fn new<A: HttpApi>(http: Http, clock: Arc<dyn Clock>) -> Self {
        Self {
            http,
            clock,
            refusals: Refusals::default(),
            style: A::STYLE,
            framing: A::FRAMING,
            dispensable: A::DISPENSABLE,
            url: A::url,
            headers: A::headers,
            body: A::body,
            reader: |model, began| Box::new(A::reader(model, began)),
        }
    }

    async fn open(&self, request: &ModelRequest) -> Result<EventStream, ProviderError> {
        let model = &request.model;
        let mut left_out = self.refusals.of(model, self.dispensable, self.clock.now_ms());
        let refused = left_out.until(THOUGHTS, request);
        let less = refused.and_then(|until| without_thoughts(request, until));
        let mut request = less.map_or(Cow::Borrowed(request), Cow::Owned);
        let refused = left_out.until(PICTURES, &request);
        let less = refused.and_then(|until| without_pictures(&request, until));
        if let Some(less) = less {
            request = Cow::Owned(less);
        }
        let mut body = left_out.without((self.body)(&request));
        loop {
            let post = Post {
                model,
                url: (self.url)(model),
                headers: (self.headers)(model)?,
                body: &body,
                style: self.style,
                framing: self.framing,
            };
            let error = match self.http.post(post).await {
                Ok(stream) => {
                    left_out.note();
                    return Ok(stream);
                }
                Err(error) => error,
            };
            if left_out.take(&mut body, &error) {
                continue;
            }
            let Some((part, less)) = without_refused(&request, &error) else {
                return Err(if request.needs_pictures { error } else { error.of_length() });
            };
            tracing::warn!(model = %model.id, %error, "asked again without {part}");
            left_out.take_part(part, &request);
            body = left_out.without((self.body)(&less));
            request = Cow::Owned(less);
        }
    }
}

/// What is left of `request` when `error` refuses its thoughts or its pictures, and which of them
/// are gone. Pictures go last: the question may be about them.
fn without_refused(
    request: &ModelRequest,
    error: &ProviderError,
) -> Option<(&'static str, ModelRequest)> {
    let calm = || without_thoughts(request, u64::MAX);
    let blind = || without_pictures(request, u64::MAX);
    let thoughts = error.refuses_thoughts().then(calm).flatten();
    let pictures = || error.refuses_pictures().then(blind).flatten();
    thoughts.map(|less| (THOUGHTS, less)).or_else(|| Some((PICTURES, pictures()?)))
}

impl Provider for HttpProvider {
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        Box::pin(async move {
            let began = self.clock.now_ms();
            let stream = self.open(request).await?;
            let answer = Answer::new(&request.model, events, began).among(&request.messages);
            reader::run(stream, (self.reader)(&request.model, began), answer).await
        })
    }
}
