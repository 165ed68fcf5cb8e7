//! `GET /metrics`, and what is counted of requests by HTTP.
//!
//! Promises: numbers are put together when somebody asks; a route is named by its
//! line in the table, never by what somebody has written.

mod collect;

use axum::http::{Method, StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use crate::telemetry::metrics::{Form, NUMBERS, stir};
use crate::telemetry::traces::{self, Kind, Span, SpanContext};

use super::caller::{once, reader};
use super::routes::Place;
use super::{Asked, not_found};

/// Where scrapers ask.
pub(super) const PATH: &str = "/metrics";

/// Where an answer comes from, for [`Watch::end`].
#[derive(Clone, Copy)]
struct Answered(Place);

/// The answer of the route at this place.
pub(super) fn of_route(place: Place, mut answer: Response) -> Response {
    answer.extensions_mut().insert(Answered(place));
    answer
}

/// A request under way.
pub(super) struct Watch {
    method: Method,
    began: Instant,
    span: Span,
}

impl Watch {
    /// One that has just come; it may be part of a trace already.
    pub fn begin(parts: &request::Parts) -> Self {
        let parent = || SpanContext::parse(once(&parts.headers, "traceparent")?);
        let parent = if traces::is_on() { parent() } else { None };
        let span = Span::begin("HTTP", Kind::Server, parent);
        Self { method: parts.method.clone(), began: Instant::now(), span }
    }

    /// The span that it is.
    pub fn context(&self) -> Option<SpanContext> {
        self.span.context()
    }

    /// It has its answer.
    pub fn end(mut self, answer: &Response) {
        let place = answer.extensions().get::<Answered>();
        let route = place.map_or("none", |place| template(place.0));
        let status = answer.status();
        NUMBERS.http.get((route, status.as_u16()), || ("other", 0)).count();
        NUMBERS.http_times.get(route, || "other").note(self.began.elapsed());
        stir();
        if self.span.context().is_none() {
            return;
        }
        // A method that nobody knows may be anything.
        let is_known = place.is_some() && status != StatusCode::METHOD_NOT_ALLOWED;
        let method = if is_known { self.method.as_str() } else { "_OTHER" };
        self.span.rename(&format!("{method} {route}"));
        self.span.set("http.request.method", method);
        self.span.set("http.route", route);
        self.span.set("http.response.status_code", u64::from(status.as_u16()));
        if status.is_server_error() {
            self.span.fail("server_error");
        }
    }
}

/// What a route is called.
const fn template(place: Place) -> &'static str {
    match place {
        Place::Path(path)
        | Place::Api(path)
        | Place::Like(path)
        | Place::PagePath(path)
        | Place::UiPath(path)
        | Place::UiFolder(path)
        | Place::Folder(path) => path,
        Place::Page => "(page)",
        Place::Hooks => "(channels)",
        Place::Webhooks => "(hooks)",
        Place::Ui => "(control ui)",
    }
}

pub(super) async fn answer(asked: Asked<'_>) -> Response {
    let Asked { gateway, wire, peer, parts, .. } = asked;
    let settings = gateway.services.settings.now().gateway.metrics;
    if !settings.enabled {
        return not_found();
    }
    // A proxy on this machine tells of itself, and is not this machine.
    if !(settings.public && peer.is_local())
        && let Err(refusal) = reader(gateway, wire, peer, &parts.headers).await
    {
        return refusal;
    }
    let form = Form::asked(once(&parts.headers, header::ACCEPT.as_str()));
    match collect::page(gateway, form).await {
        Ok(text) => {
            let kind =
                [(header::CONTENT_TYPE, form.content_type()), (header::CACHE_CONTROL, "no-store")];
            (StatusCode::OK, kind, text).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "numbers not told");
            (StatusCode::SERVICE_UNAVAILABLE, "the database cannot be read\n").into_response()
        }
    }
}
