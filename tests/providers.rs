//! The adapters against a real server on this machine.
//!
//! The server plays one scripted answer per request and records what it was
//! asked, so each test says exactly what the provider does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use clawgate::config::model_options::ThinkingFormat;
use clawgate::config::models::ModelsConfig;
use clawgate::config::secrets::ResolvedSecrets;
use clawgate::protocol::message::AgentMessage;
use clawgate::protocol::message::{AssistantMessage, StopReason, UserMessage, text_of};
use clawgate::providers::{
    Adapters, Catalog, CatalogSources, HttpLimits, InputKind, ModelRequest, ProviderError,
    ProviderErrorKind, RetryPolicy, StreamEvent, ThinkingLevel, ToolSpec,
};
use clawgate::support::{Clock, SystemClock};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// What happens after the scripted bytes.
#[derive(Clone, Copy)]
enum Ending {
    Whole,
    Cut,
    Stall,
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
    ending: Ending,
}

impl Answer {
    fn stream(body: impl Into<Vec<u8>>, ending: Ending) -> Self {
        let headers = vec![("content-type", "text/event-stream")];
        Self { status: 200, headers, body: body.into(), ending }
    }

    fn error(status: u16, body: &Value, headers: &[(&'static str, &'static str)]) -> Self {
        let headers = [&[("content-type", "application/json")], headers].concat();
        Self { status, headers, body: body.to_string().into(), ending: Ending::Whole }
    }
}

struct Asked {
    path: String,
    headers: HeaderMap,
    body: Value,
}

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    asked: Vec<Asked>,
    /// Fails once the answer that stalls has been given up.
    stalled: Option<tokio::sync::oneshot::Receiver<()>>,
}

type Shared = Arc<Mutex<Script>>;

async fn answer(State(script): State<Shared>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1_000_000).await.unwrap();
    let answer = {
        let mut script = script.lock();
        script.asked.push(Asked {
            path: head.uri.path().to_owned(),
            headers: head.headers,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        });
        script.answers.pop_front().expect("one request too many")
    };
    let start = stream::iter([Ok::<_, std::io::Error>(Bytes::from(answer.body))]);
    let body = match answer.ending {
        Ending::Whole => Body::from_stream(start),
        Ending::Cut => {
            // The error ends the connection; the pause lets the bytes out first.
            let cut = stream::once(async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            });
            Body::from_stream(start.chain(cut))
        }
        Ending::Stall => {
            let (alive, dropped) = tokio::sync::oneshot::channel::<()>();
            script.lock().stalled = Some(dropped);
            let stall = stream::once(async move {
                let _alive = alive;
                std::future::pending().await
            });
            Body::from_stream(start.chain(stall))
        }
    };
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(body).unwrap()
}

struct Server {
    address: String,
    script: Shared,
    task: tokio::task::JoinHandle<Result<(), Infallible>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(answers: Vec<Answer>) -> Server {
    let script = Arc::new(Mutex::new(Script { answers: answers.into(), ..Script::default() }));
    let app = Router::new().fallback(answer).with_state(Arc::clone(&script));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    #[allow(clippy::disallowed_methods)] // no supervisor in a test
    let task = tokio::spawn(async move {
        axum::serve(listener, app).await.unwrap();
        Ok(())
    });
    Server { address, script, task }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Dialect {
    OpenAi,
    Anthropic,
    Responses,
    Google,
    Ollama,
}

const ALL: [Dialect; 5] =
    [Dialect::OpenAi, Dialect::Anthropic, Dialect::Responses, Dialect::Google, Dialect::Ollama];

impl Dialect {
    fn api(self) -> &'static str {
        match self {
            Self::OpenAi => "openai-completions",
            Self::Anthropic => "anthropic-messages",
            Self::Responses => "openai-responses",
            Self::Google => "google-generative-ai",
            Self::Ollama => "ollama",
        }
    }

    /// The beginning of an answer: one piece of text.
    fn half(self) -> String {
        match self {
            Self::OpenAi => sse(&[json!({
                "id": "r1", "choices": [{"index": 0, "delta": {"content": "Hello "}}],
            })]),
            Self::Anthropic => sse(&[
                json!({"type": "message_start", "message": {"id": "r1", "usage": {"input_tokens": 3}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello "}}),
            ]),
            Self::Responses => sse(&[
                json!({"type": "response.created", "response": {"id": "r1"}}),
                json!({"type": "response.output_item.added", "item": {"type": "message", "id": "m"}}),
                json!({"type": "response.output_text.delta", "delta": "Hello "}),
            ]),
            Self::Google => sse(&[json!({
                "responseId": "r1", "candidates": [{"content": {"parts": [{"text": "Hello "}]}}],
            })]),
            Self::Ollama => "{\"message\":{\"content\":\"Hello \"},\"done\":false}\n".into(),
        }
    }

    fn whole(self) -> String {
        let rest = match self {
            Self::OpenAi => {
                let rest = sse(&[
                    json!({"id": "r1", "choices": [{"index": 0, "delta": {"content": "wörld"}}]}),
                    json!({"id": "r1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
                    json!({"id": "r1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
                ]);
                format!("{rest}data: [DONE]\n\n")
            }
            Self::Anthropic => sse(&[
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "wörld"}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
                json!({"type": "message_stop"}),
            ]),
            Self::Responses => sse(&[
                json!({"type": "response.output_text.delta", "delta": "wörld"}),
                json!({"type": "response.output_item.done", "item": {"type": "message", "id": "m",
                    "content": [{"type": "output_text", "text": "Hello wörld"}]}}),
                json!({"type": "response.completed", "response": {"id": "r1", "status": "completed",
                    "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}}),
            ]),
            Self::Google => sse(&[json!({
                "candidates": [{"content": {"parts": [{"text": "wörld"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
            })]),
            Self::Ollama => [
                json!({"message": {"content": "wörld"}, "done": false}),
                json!({"message": {"content": ""}, "done": true, "done_reason": "stop",
                       "prompt_eval_count": 3, "eval_count": 2}),
            ]
            .map(|line| format!("{line}\n"))
            .concat(),
        };
        self.half() + &rest
    }

    fn error(self, status: u16, headers: &[(&'static str, &'static str)]) -> Answer {
        Answer::error(status, &self.error_body(), headers)
    }

    fn error_body(self) -> Value {
        match self {
            Self::OpenAi | Self::Responses => json!({"error": {"message": "bad key sk-local-1"}}),
            Self::Google => json!({"error": {"code": 401, "message": "bad key sk-local-1"}}),
            Self::Ollama => json!({"error": "bad key sk-local-1"}),
            Self::Anthropic => json!({"type": "error", "error": {"message": "bad key sk-local-1"}}),
        }
    }

    /// The text of the error, which never holds the key.
    fn error_text(self, status: u16) -> String {
        let body = self.error_body().to_string().replace("sk-local-1", "***");
        match self {
            Self::OpenAi | Self::Responses => format!("{status} bad key ***"),
            Self::Anthropic => format!("{status} {body}"),
            Self::Google => body,
            Self::Ollama => format!("Ollama API error {status}: {body}"),
        }
    }
}

fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<Vec<_>>().concat()
}

struct Call {
    result: Result<AssistantMessage, ProviderError>,
    events: Vec<StreamEvent>,
    script: Shared,
}

impl Call {
    fn requests(&self) -> usize {
        self.script.lock().asked.len()
    }

    fn retries(&self) -> Vec<u32> {
        let attempts = self.events.iter().filter_map(|event| match event {
            StreamEvent::Retry(notice) => Some(notice.attempt),
            _ => None,
        });
        attempts.collect()
    }

    fn failure(&self) -> &ProviderError {
        self.result.as_ref().unwrap_err()
    }

    fn partial_text(&self) -> String {
        text_of(&self.failure().partial.as_ref().unwrap().content)
    }
}

/// Quick, so that tests need not wait; the order of things is the same.
fn limits() -> (HttpLimits, RetryPolicy) {
    let http = HttpLimits { near_idle: Duration::from_secs(5), ..HttpLimits::default() };
    let first_delay = Duration::from_millis(2);
    (http, RetryPolicy { first_delay, ..RetryPolicy::default() })
}

fn catalog(dialect: Dialect, address: &str, http: HttpLimits, retry: RetryPolicy) -> Catalog {
    let config: ModelsConfig = serde_json::from_value(json!({"providers": {"local": {
        "baseUrl": format!("{address}/v1"), "apiKey": "sk-local-1", "api": dialect.api(),
        "headers": {"X-Team": "blue"}, "models": [{"id": "one"}],
    }}}))
    .unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let adapters = Adapters::with_limits(&clock, http, retry);
    let secrets = ResolvedSecrets::default();
    Catalog::build(&adapters, &CatalogSources::plain(&config, &|_| None, &secrets)).unwrap()
}

/// "hi" to the default model.
fn plain_request(catalog: &Catalog) -> ModelRequest {
    ModelRequest {
        model: Arc::clone(&catalog.default_choice().model),
        system: None,
        messages: vec![AgentMessage::User(UserMessage::text("hi", 1))],
        tools: vec![ToolSpec {
            name: "t".into(),
            description: String::new(),
            parameters: json!({}),
        }],
        thinking: ThinkingLevel::Off,
        session_id: "s".into(),
        needs_pictures: false,
    }
}

async fn call_with(dialect: Dialect, answers: Vec<Answer>, http: HttpLimits) -> Call {
    let server = serve(answers).await;
    let catalog = catalog(dialect, &server.address, http, limits().1);
    let request = plain_request(&catalog);
    let provider = catalog.provider_for(&request.model);
    let mut events = Vec::new();
    // What it has used is in the message.
    let mut said = |event| {
        if !matches!(event, StreamEvent::Used(_)) {
            events.push(event);
        }
    };
    let result = provider.stream(&request, &mut said).await;
    Call { result, events, script: Arc::clone(&server.script) }
}

async fn call(dialect: Dialect, answers: Vec<Answer>) -> Call {
    call_with(dialect, answers, limits().0).await
}

#[tokio::test]
async fn text_is_streamed_and_the_request_is_the_one_that_the_api_wants() {
    for dialect in ALL {
        let call = call(dialect, vec![Answer::stream(dialect.whole(), Ending::Whole)]).await;
        let message = call.result.as_ref().unwrap();
        assert_eq!(text_of(&message.content), "Hello wörld");
        assert_eq!((message.usage.input, message.usage.output), (3, 2));
        assert_eq!(message.stop_reason, StopReason::Stop);
        assert_eq!(
            call.events,
            [
                StreamEvent::TextStart { index: 0 },
                StreamEvent::TextDelta { index: 0, delta: "Hello ".into() },
                StreamEvent::TextDelta { index: 0, delta: "wörld".into() },
                StreamEvent::BlockEnd { index: 0 },
            ]
        );
        let script = call.script.lock();
        let asked = &script.asked[0];
        let header = |name: &str| asked.headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(
            (header("x-team"), header("content-type")),
            (Some("blue"), Some("application/json"))
        );
        match dialect {
            // Its address holds both.
            Dialect::Google => assert_eq!(asked.body.get("model"), None),
            _ => assert_eq!(
                (&asked.body["model"], &asked.body["stream"]),
                (&json!("one"), &json!(true))
            ),
        }
        match dialect {
            Dialect::OpenAi | Dialect::Responses | Dialect::Ollama => {
                let path = match dialect {
                    Dialect::OpenAi => "/v1/chat/completions",
                    Dialect::Responses => "/v1/responses",
                    _ => "/api/chat",
                };
                assert_eq!(asked.path, path);
                assert_eq!(header("authorization"), Some("Bearer sk-local-1"));
            }
            Dialect::Google => {
                assert_eq!(asked.path, "/v1/models/one:streamGenerateContent");
                assert_eq!(header("x-goog-api-key"), Some("sk-local-1"));
            }
            Dialect::Anthropic => {
                assert_eq!(asked.path, "/v1/messages");
                assert_eq!(header("x-api-key"), Some("sk-local-1"));
                assert_eq!(header("anthropic-version"), Some("2023-06-01"));
            }
        }
    }
}

#[tokio::test]
async fn a_refused_key_fails_at_once_and_is_not_repeated_in_the_error() {
    for dialect in ALL {
        let call = call(dialect, vec![dialect.error(401, &[])]).await;
        let error = call.failure();
        assert_eq!((error.kind, error.status), (ProviderErrorKind::Auth, Some(401)));
        assert_eq!(error.message, dialect.error_text(401));
        assert!(!format!("{error:?}").contains("sk-local-1"));
        assert_eq!((call.requests(), call.events.len()), (1, 0));
    }
}

/// Status, what it means, how often the provider is asked.
const STATUSES: [(u16, ProviderErrorKind, usize); 13] = [
    (400, ProviderErrorKind::BadRequest, 1),
    (401, ProviderErrorKind::Auth, 1),
    (402, ProviderErrorKind::BadRequest, 1),
    (403, ProviderErrorKind::Auth, 1),
    (404, ProviderErrorKind::BadRequest, 1),
    (408, ProviderErrorKind::Timeout, 3),
    (422, ProviderErrorKind::BadRequest, 1),
    (429, ProviderErrorKind::RateLimit, 3),
    (500, ProviderErrorKind::Server, 3),
    (502, ProviderErrorKind::Server, 3),
    (503, ProviderErrorKind::Server, 3),
    (504, ProviderErrorKind::Timeout, 3),
    (529, ProviderErrorKind::Overloaded, 3),
];

#[tokio::test]
async fn every_status_has_its_kind_and_its_text_and_what_may_pass_is_tried_again() {
    for dialect in ALL {
        for (status, kind, tries) in STATUSES {
            let answers = (0..tries).map(|_| dialect.error(status, &[])).collect();
            let call = call(dialect, answers).await;
            let error = call.failure();
            assert_eq!((error.kind, error.status), (kind, Some(status)), "{dialect:?}");
            assert_eq!(error.message, dialect.error_text(status), "{dialect:?}");
            assert_eq!(call.requests(), tries, "{dialect:?} {status}");
        }
    }
}

#[tokio::test]
async fn too_long_a_conversation_is_told_apart_from_other_bad_requests() {
    for dialect in ALL {
        let text = "This model's maximum context length is 10 tokens";
        let body = match dialect {
            Dialect::Ollama => json!({"error": text}),
            Dialect::Anthropic => json!({"type": "error", "error": {
                "type": "invalid_request_error", "message": "prompt is too long: 12 tokens > 10 maximum"}}),
            Dialect::Google => {
                json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
                "The input token count (12) exceeds the maximum number of tokens allowed (10)."}})
            }
            _ => json!({"error": {"message": text}}),
        };
        let call = call(dialect, vec![Answer::error(400, &body, &[])]).await;
        assert_eq!(call.failure().kind, ProviderErrorKind::ContextLength, "{dialect:?}");
        assert_eq!((call.failure().wire_kind(), call.requests()), ("context_length", 1));
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_out_as_asked() {
    for dialect in ALL {
        let answers = vec![
            dialect.error(429, &[("retry-after-ms", "7")]),
            Answer::stream(dialect.whole(), Ending::Whole),
        ];
        let call = call(dialect, answers).await;
        assert!(call.result.is_ok());
        let StreamEvent::Retry(notice) = &call.events[0] else { panic!("{:?}", call.events) };
        assert_eq!((notice.attempt, notice.max_attempts), (1, 2));
        assert_eq!(notice.delay, Duration::from_millis(7));
        assert_eq!(notice.message, dialect.error_text(429));
        assert_eq!(call.requests(), 2);
    }
}

#[tokio::test]
async fn the_wait_in_an_error_of_google_is_kept_unless_a_header_asks_for_another() {
    let limited = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "busy",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.007s"}]}});
    let header = [("retry-after-ms", "9")];
    for (headers, expected) in [([].as_slice(), 7), (header.as_slice(), 9)] {
        let answers = vec![
            Answer::error(429, &limited, headers),
            Answer::stream(Dialect::Google.whole(), Ending::Whole),
        ];
        let call = call(Dialect::Google, answers).await;
        assert!(call.result.is_ok());
        let StreamEvent::Retry(notice) = &call.events[0] else { panic!("{:?}", call.events) };
        assert_eq!(notice.delay, Duration::from_millis(expected));
    }
}

#[tokio::test]
async fn too_long_a_rate_limit_fails_at_once() {
    let dialect = Dialect::OpenAi;
    let call = call(dialect, vec![dialect.error(429, &[("retry-after", "3600")])]).await;
    assert_eq!(call.failure().kind, ProviderErrorKind::RateLimit);
    assert_eq!(call.failure().retry_after, Some(Duration::from_secs(3600)));
    assert_eq!(call.requests(), 1);
}

#[tokio::test]
async fn a_provider_that_keeps_failing_is_given_up_after_three_attempts() {
    for dialect in ALL {
        let answers = (0..3).map(|_| dialect.error(500, &[])).collect();
        let call = call(dialect, answers).await;
        assert_eq!((call.failure().kind, call.requests()), (ProviderErrorKind::Server, 3));
        assert_eq!(call.failure().message, dialect.error_text(500));
        assert_eq!(call.retries(), [1, 2]);
    }
}

#[tokio::test]
async fn a_cut_in_the_middle_keeps_the_text_and_is_not_repeated() {
    for dialect in ALL {
        for ending in [Ending::Cut, Ending::Whole] {
            let call = call(dialect, vec![Answer::stream(dialect.half(), ending)]).await;
            assert_eq!(call.failure().kind, ProviderErrorKind::Cut);
            assert!(call.failure().message.starts_with("terminated"), "{}", call.failure());
            assert_eq!((call.partial_text().as_str(), call.requests()), ("Hello ", 1));
        }
    }
}

#[tokio::test]
async fn a_stream_that_ends_before_it_begins_is_tried_again() {
    for dialect in ALL {
        let empty = Answer::stream("", Ending::Whole);
        let call = call(dialect, vec![empty, Answer::stream(dialect.whole(), Ending::Whole)]).await;
        assert!(call.result.is_ok());
        assert_eq!((call.retries(), call.requests()), (vec![1], 2));
    }
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_given_up() {
    for dialect in ALL {
        let http = HttpLimits { near_idle: Duration::from_secs(1), ..HttpLimits::default() };
        let answers = vec![Answer::stream(dialect.half(), Ending::Stall)];
        let call = call_with(dialect, answers, http).await;
        assert_eq!(call.failure().kind, ProviderErrorKind::Timeout);
        assert_eq!(call.failure().wire_kind(), "timeout");
        assert_eq!((call.partial_text().as_str(), call.requests()), ("Hello ", 1));
    }
}

#[tokio::test]
async fn a_server_near_by_has_a_patience_of_its_own() {
    for dialect in ALL {
        // With this one no answer is in time.
        let idle = Duration::ZERO;
        let http = HttpLimits { idle, near_idle: Duration::from_secs(5), ..HttpLimits::default() };
        let answers = vec![Answer::stream(dialect.whole(), Ending::Whole)];
        assert!(call_with(dialect, answers, http).await.result.is_ok());
    }
}

#[tokio::test]
async fn garbage_is_an_error_and_not_a_panic() {
    for dialect in ALL {
        let garbage: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let mut data = b"data: ".to_vec();
        data.extend(garbage.iter().filter(|byte| !matches!(byte, b'\n' | b'\r')));
        data.extend(b"\n\n");
        let first = call(dialect, vec![Answer::stream(data, Ending::Whole)]).await;
        assert_eq!(first.failure().kind, ProviderErrorKind::Protocol);
        if dialect == Dialect::Ollama {
            continue;
        }
        // Nothing of it is an event: the answer ended before it began. (Every
        // line is one for Ollama.)
        let answers = (0..3).map(|_| Answer::stream(garbage.clone(), Ending::Whole)).collect();
        let second = call(dialect, answers).await;
        assert_eq!(second.failure().kind, ProviderErrorKind::Cut);
    }
}

#[tokio::test]
async fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    for dialect in ALL {
        let huge = dialect.half() + "data: " + &"x".repeat(5 * 1024 * 1024);
        let call = call(dialect, vec![Answer::stream(huge, Ending::Stall)]).await;
        assert_eq!(call.failure().kind, ProviderErrorKind::Protocol);
        assert_eq!(call.partial_text(), "Hello ");
    }
}

#[tokio::test]
async fn a_page_instead_of_a_stream_is_quoted_and_a_redirect_is_not_followed() {
    let mut page = Answer::stream("<h1>Login</h1>", Ending::Whole);
    page.headers = vec![("content-type", "text/html; charset=utf-8")];
    let shown = call(Dialect::OpenAi, vec![page]).await;
    assert_eq!(shown.failure().kind, ProviderErrorKind::Protocol);
    assert!(shown.failure().message.contains("<h1>Login</h1>"), "{}", shown.failure());

    let redirect = Answer::error(307, &json!({}), &[("location", "http://127.0.0.1:1/")]);
    let refused = call(Dialect::Anthropic, vec![redirect]).await;
    assert_eq!((refused.failure().status, refused.requests()), (Some(307), 1));
}

#[tokio::test]
async fn an_error_body_is_read_up_to_its_limit() {
    let body = "x".repeat(1_000_000);
    let mut answer = Answer::error(400, &Value::Null, &[]);
    answer.body = body.into();
    answer.ending = Ending::Stall;
    let call = call(Dialect::OpenAi, vec![answer]).await;
    assert_eq!(call.failure().message.len(), "400 ".len() + 64 * 1024);
}

/// One model at `base_url`, reached as `request` says.
fn reached(base_url: &str, request: &Value, env: &[(&str, &str)]) -> Catalog {
    let config: ModelsConfig = serde_json::from_value(json!({"providers": {"local": {
        "baseUrl": base_url, "apiKey": "sk-local-1", "request": request, "models": [{"id": "one"}],
    }}}))
    .unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (http, retry) = limits();
    let adapters = Adapters::with_limits(&clock, http, RetryPolicy { retries: 0, ..retry });
    let env = |name: &str| {
        env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let secrets = ResolvedSecrets::default();
    Catalog::build(&adapters, &CatalogSources::plain(&config, &env, &secrets)).unwrap()
}

async fn ask(catalog: &Catalog) -> Result<AssistantMessage, ProviderError> {
    let request = plain_request(catalog);
    catalog.provider_for(&request.model).stream(&request, &mut |_| {}).await
}

#[tokio::test]
async fn a_configured_proxy_is_taken_but_not_to_this_machine() {
    let proxy = serve(vec![Answer::stream(Dialect::OpenAi.whole(), Ending::Whole)]).await;
    let request = json!({"proxy": {"mode": "explicit-proxy", "url": proxy.address}});
    let catalog = reached("http://models.test/v1", &request, &[]);
    assert_eq!(text_of(&ask(&catalog).await.unwrap().content), "Hello wörld");
    let host = proxy.script.lock().asked[0].headers["host"].clone();
    assert_eq!(host, "models.test");

    let here = serve(vec![Answer::stream(Dialect::OpenAi.whole(), Ending::Whole)]).await;
    let catalog = reached(&format!("{}/v1", here.address), &request, &[]);
    ask(&catalog).await.unwrap();
    assert_eq!((proxy.script.lock().asked.len(), here.script.lock().asked.len()), (1, 1));
}

type Made = rcgen::CertifiedKey<rcgen::KeyPair>;

fn certificate(name: &str) -> Made {
    rcgen::generate_simple_self_signed([name.to_owned()]).unwrap()
}

/// Answers each call over TLS with `body`; gives its address and certificate.
fn serve_tls(body: String) -> (String, String) {
    let made = certificate("localhost");
    let port = serve_tls_as(&made, None, body);
    (format!("https://localhost:{port}"), made.cert.pem())
}

/// The same with this certificate, to clients that have theirs if one is
/// wanted; gives its port.
fn serve_tls_as(made: &Made, client: Option<&Made>, body: String) -> u16 {
    use std::io::{Read, Write};
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(client.cert.der().clone()).unwrap();
            let roots = Arc::new(roots);
            let verifier =
                rustls::server::WebPkiClientVerifier::builder_with_provider(roots, provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let config = Arc::new(config);
        for tcp in listener.incoming() {
            let tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(tls, tcp.unwrap());
            let mut start = [0; 1024];
            // Who does not believe the certificate hangs up here.
            if stream.read(&mut start).is_err() {
                continue;
            }
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).unwrap();
            stream.flush().unwrap();
        }
    });
    port
}

/// A proxy that lets everybody through to one port of this machine; tells
/// whom they asked for.
fn serve_proxy(port: u16) -> (String, Arc<Mutex<Vec<String>>>) {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://me:s3cret-word@{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let lines = BufReader::new(client.try_clone().unwrap()).lines();
            let head: Vec<_> =
                lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            log.lock().push(head.join("\n"));
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let mut server = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut up, &mut server));
            std::thread::spawn(move || std::io::copy(&mut down, &mut client));
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_server_that_asks_who_we_are_is_shown_our_certificate() {
    let (server, client, stranger) =
        (certificate("localhost"), certificate("clawgate"), certificate("stranger"));
    let port = serve_tls_as(&server, Some(&client), Dialect::OpenAi.whole());
    let address = format!("https://localhost:{port}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cert.pem");
    std::fs::write(&file, client.cert.pem()).unwrap();
    let with = |cert: &str, key: &Made| {
        let key = key.signing_key.serialize_pem();
        json!({"tls": {"ca": server.cert.pem(), "cert": cert, "key": key}})
    };
    for cert in [client.cert.pem().as_str(), file.to_str().unwrap()] {
        let answer = ask(&reached(&address, &with(cert, &client), &[])).await.unwrap();
        assert_eq!(text_of(&answer.content), "Hello wörld");
    }
    for request in
        [json!({"tls": {"ca": server.cert.pem()}}), with(&stranger.cert.pem(), &stranger)]
    {
        let error = ask(&reached(&address, &request, &[])).await.unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::Network, "{request}");
    }
}

#[tokio::test]
async fn a_certificate_is_left_unchecked_only_when_that_is_asked_for() {
    let (address, _) = serve_tls(Dialect::OpenAi.whole());
    ask(&reached(&address, &json!({}), &[])).await.unwrap_err();
    let request = json!({"tls": {"insecureSkipVerify": true}});
    ask(&reached(&address, &request, &[])).await.unwrap();
}

#[tokio::test]
async fn a_proxy_carries_a_call_over_tls_that_it_cannot_read() {
    let server = certificate("models.test");
    let port = serve_tls_as(&server, None, Dialect::OpenAi.whole());
    let (proxy, asked) = serve_proxy(port);
    let proxy = json!({"mode": "explicit-proxy", "url": proxy});
    let request = json!({"proxy": proxy, "tls": {"ca": server.cert.pem()}});
    let answer = ask(&reached("https://models.test/v1", &request, &[])).await.unwrap();
    assert_eq!(text_of(&answer.content), "Hello wörld");
    let head = asked.lock()[0].to_lowercase();
    assert!(head.starts_with("connect models.test:443 http/1.1"), "{head}");
    assert!(head.contains("proxy-authorization: basic ") && !head.contains("sk-local"), "{head}");
    // Not believed without its authority, through the same proxy.
    let error = ask(&reached("https://models.test/v1", &json!({"proxy": proxy}), &[])).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Network);
    assert!(!error.message.contains("s3cret-word"), "{}", error.message);
}

#[tokio::test]
async fn a_credential_goes_into_the_header_that_is_named_and_into_no_other() {
    let refusal = json!({"error": {"message": "bad key tok-secret-1"}});
    for api in ["openai-completions", "anthropic-messages", "google-generative-ai"] {
        for (auth, name, value) in [
            (
                json!({"mode": "authorization-bearer", "token": "tok-secret-1"}),
                "authorization",
                "Bearer tok-secret-1",
            ),
            (
                json!({"mode": "header", "headerName": "X-Team-Key", "value": "tok-secret-1", "prefix": "Key "}),
                "x-team-key",
                "Key tok-secret-1",
            ),
        ] {
            let server = serve(vec![Answer::error(401, &refusal, &[])]).await;
            let config: ModelsConfig = serde_json::from_value(json!({"providers": {"local": {
                "baseUrl": server.address, "apiKey": "sk-own", "api": api, "models": [{"id": "one"}],
                "headers": {"x-a": "provider", "x-b": "provider"},
                "request": {"auth": auth, "headers": {"x-b": "request"}},
            }}}))
            .unwrap();
            let clock: Arc<dyn Clock> = Arc::new(SystemClock);
            let (http, retry) = limits();
            let adapters = Adapters::with_limits(&clock, http, retry);
            let secrets = ResolvedSecrets::default();
            let sources = CatalogSources::plain(&config, &|_| None, &secrets);
            let error = ask(&Catalog::build(&adapters, &sources).unwrap()).await.unwrap_err();
            assert_eq!(error.kind, ProviderErrorKind::Auth);
            assert!(!error.message.contains("tok-secret-1"), "{}", error.message);
            let headers = server.script.lock().asked[0].headers.clone();
            assert_eq!(headers[name], value, "{api}");
            assert_eq!(headers["x-a"], "provider");
            assert_eq!(headers["x-b"], "request");
            for other in ["authorization", "x-api-key", "x-goog-api-key"] {
                assert!(other == name || !headers.contains_key(other), "{api} {other}");
            }
        }
    }
}

#[test]
fn half_a_way_to_a_server_is_an_error_with_its_path() {
    for (request, text) in [
        (
            json!({"tls": {"cert": "/c.pem"}}),
            "models.providers.local.request.tls.key: the certificate in cert needs its key",
        ),
        (
            json!({"auth": {"mode": "authorization-bearer", "token": " "}}),
            "models.providers.local.request.auth: the credential is empty",
        ),
    ] {
        let config = json!({"providers": {"local": {
            "baseUrl": "http://127.0.0.1:9", "request": request, "models": [{"id": "one"}],
        }}});
        let config: ModelsConfig = serde_json::from_value(config).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let secrets = ResolvedSecrets::default();
        let sources = CatalogSources::plain(&config, &|_| None, &secrets);
        let error = Catalog::build(&Adapters::new(&clock), &sources).err().unwrap();
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn an_authority_of_ones_own_is_believed_when_it_is_named() {
    let (address, pem) = serve_tls(Dialect::OpenAi.whole());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, &pem).unwrap();
    let file = file.to_str().unwrap();

    let stranger = ask(&reached(&address, &json!({}), &[])).await.unwrap_err();
    assert_eq!(stranger.kind, ProviderErrorKind::Network);
    for (request, env) in [
        (json!({"tls": {"ca": pem}}), None),
        (json!({"tls": {"ca": file}}), None),
        (json!({}), Some(("NODE_EXTRA_CA_CERTS", file))),
    ] {
        let catalog = reached(&address, &request, env.as_slice());
        assert_eq!(text_of(&ask(&catalog).await.unwrap().content), "Hello wörld", "{request}");
    }
    // One that is gone takes nothing from the other.
    let gone = [("NODE_EXTRA_CA_CERTS", "/nowhere/ca.pem")];
    let catalog = reached(&address, &json!({"tls": {"ca": file}}), &gone);
    assert_eq!(text_of(&ask(&catalog).await.unwrap().content), "Hello wörld");
    let stranger = ask(&reached(&address, &json!({}), &gone)).await.unwrap_err();
    assert!(!stranger.message.contains("/nowhere/ca.pem"), "{}", stranger.message);
}

#[tokio::test]
async fn a_call_that_is_dropped_at_any_time_ends_its_connection() {
    for dialect in ALL {
        let server = serve(vec![Answer::stream(dialect.half(), Ending::Stall)]).await;
        let (http, retry) = limits();
        let catalog = catalog(dialect, &server.address, http, retry);
        let request = plain_request(&catalog);
        let provider = catalog.provider_for(&request.model);
        let begun = tokio::sync::Notify::new();
        let mut sink = |event| {
            if matches!(event, StreamEvent::TextDelta { .. }) {
                begun.notify_one();
            }
        };
        tokio::select! {
            _ = provider.stream(&request, &mut sink) => panic!("{dialect:?} has not stalled"),
            () = begun.notified() => {}
        }
        // The body that stalls is dropped when its connection is.
        let dropped = server.script.lock().stalled.take().unwrap();
        tokio::time::timeout(Duration::from_secs(10), dropped).await.unwrap().unwrap_err();
    }
}

#[tokio::test]
async fn a_call_whose_id_the_conversation_has_already_gets_another() {
    let call = json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0,
        "id": "call_0", "function": {"name": "t", "arguments": "{}"}}]}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let body = format!("{}data: [DONE]\n\n", sse(&[call, end]));
    let answers = (0..2).map(|_| Answer::stream(body.clone(), Ending::Whole));
    let server = serve(answers.collect()).await;
    let (http, retry) = limits();
    let catalog = catalog(Dialect::OpenAi, &server.address, http, retry);
    let mut request = plain_request(&catalog);
    let provider = catalog.provider_for(&request.model);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let message = provider.stream(&request, &mut |_| {}).await.unwrap();
        ids.push(message.tool_calls().next().unwrap().id.clone());
        request.messages.push(AgentMessage::Assistant(message));
    }
    assert_eq!(ids[0], "call_0");
    assert!(ids[1] != ids[0] && ids[1].ends_with("xcall_0"), "{ids:?}");
}

#[tokio::test]
async fn a_model_without_tools_can_still_talk() {
    let refusal = json!({"error": {"message": "one does not support tools"}});
    let answers = vec![
        Answer::error(400, &refusal, &[]),
        Answer::stream(Dialect::OpenAi.whole(), Ending::Whole),
    ];
    let server = serve(answers).await;
    let (http, retry) = limits();
    let catalog = catalog(Dialect::OpenAi, &server.address, http, retry);
    let mut request = plain_request(&catalog);
    let model = Arc::make_mut(&mut request.model);
    Arc::make_mut(&mut model.options).params =
        serde_json::from_value(json!({"toolChoice": "auto"})).unwrap();
    catalog.provider_for(&request.model).stream(&request, &mut |_| {}).await.unwrap();
    // A choice among no tools would be refused, too.
    for member in ["tools", "tool_choice"] {
        assert_eq!(told(&server, &format!("/{member}")), [true, false], "{member}");
    }
}

/// Whether each request so far had the member at this place.
fn told(server: &Server, place: &str) -> Vec<bool> {
    let script = server.script.lock();
    script.asked.iter().map(|asked| asked.body.pointer(place).is_some()).collect()
}

#[tokio::test]
async fn what_a_model_refuses_to_be_told_is_left_out() {
    for (dialect, place, refusal) in [
        (Dialect::OpenAi, "/temperature", "invalid temperature: only 1 is allowed for this model"),
        (Dialect::OpenAi, "/reasoning_effort", "reasoning_effort='low' is not supported"),
        (Dialect::OpenAi, "/thinking", "thinking: this model has no such switch"),
        (Dialect::OpenAi, "/enable_thinking", "enable_thinking: Extra inputs are not permitted"),
        (Dialect::OpenAi, "/chat_template_kwargs", "unknown parameter: chat_template_kwargs"),
        (Dialect::Responses, "/temperature", "Unsupported parameter: 'temperature'"),
        (Dialect::Responses, "/reasoning", "Unsupported value: 'low' is not supported with 'one'"),
        (Dialect::Responses, "/reasoning", NO_EFFORT),
        (Dialect::Responses, "/include", NO_EFFORT),
        (Dialect::Responses, "/include", "Encrypted content is not supported with this model."),
        (
            Dialect::Responses,
            "/reasoning/summary",
            "Your organization must be verified to generate reasoning summaries.",
        ),
        (Dialect::Anthropic, "/temperature", "`temperature` is deprecated for this model."),
        (Dialect::Anthropic, "/thinking", "thinking: Extra inputs are not permitted"),
        (
            Dialect::Google,
            "/generationConfig/thinkingConfig",
            "Thinking is not enabled for models/one",
        ),
    ] {
        let refusal = json!({"error": {"message": refusal}});
        let whole = || Answer::stream(dialect.whole(), Ending::Whole);
        let refused = || Answer::error(400, &refusal, &[]);
        let server = serve(vec![refused(), whole(), whole(), refused(), whole()]).await;
        let (http, retry) = limits();
        let catalog = catalog(dialect, &server.address, http, retry);
        let mut request = plain_request(&catalog);
        request.thinking = ThinkingLevel::Low;
        let model = Arc::make_mut(&mut request.model);
        model.reasoning = place != "/temperature";
        let options = Arc::make_mut(&mut model.options);
        options.params.temperature = Some(0.5);
        options.compat.thinking_format = match place {
            "/thinking" => Some(ThinkingFormat::Deepseek),
            "/enable_thinking" => Some(ThinkingFormat::Qwen),
            "/chat_template_kwargs" => Some(ThinkingFormat::QwenChatTemplate),
            _ => None,
        };
        let provider = catalog.provider_for(&request.model);
        provider.stream(&request, &mut |_| {}).await.unwrap();
        // The next question is asked once …
        provider.stream(&request, &mut |_| {}).await.unwrap();
        assert_eq!(told(&server, place), [true, false, false], "{dialect:?} {place}");
        // … and that of another model is a question of its own.
        Arc::make_mut(&mut request.model).id = "other".into();
        provider.stream(&request, &mut |_| {}).await.unwrap();
        assert_eq!(told(&server, place)[3..], [true, false], "{dialect:?} {place}");
    }
}

/// What `OpenAI` says of a model that does not think.
const NO_EFFORT: &str =
    "Unsupported parameter: 'reasoning.effort' is not supported with this model.";

#[tokio::test]
async fn a_value_that_was_not_refused_is_told() {
    let refusal = json!({"error": {"message": "invalid temperature"}});
    let whole = || Answer::stream(Dialect::OpenAi.whole(), Ending::Whole);
    let server = serve(vec![Answer::error(400, &refusal, &[]), whole(), whole(), whole()]).await;
    let (http, retry) = limits();
    let catalog = catalog(Dialect::OpenAi, &server.address, http, retry);
    let mut request = plain_request(&catalog);
    let provider = catalog.provider_for(&request.model);
    for temperature in [0.5, 1.0, 0.5] {
        let model = Arc::make_mut(&mut request.model);
        Arc::make_mut(&mut model.options).params.temperature = Some(temperature);
        provider.stream(&request, &mut |_| {}).await.unwrap();
    }
    assert_eq!(told(&server, "/temperature"), [true, false, true, false]);
}

/// A request that goes on with an answer of this content, which called the tool `t` as `c|fc_1`.
fn going_on(dialect: Dialect, catalog: &Catalog, content: &Value) -> ModelRequest {
    let mut request = plain_request(catalog);
    Arc::make_mut(&mut request.model).reasoning = true;
    request.thinking = ThinkingLevel::Low;
    let answer = json!({
        "role": "assistant", "api": dialect.api(), "provider": "local", "model": "one",
        "content": content, "usage": {}, "stopReason": "toolUse", "timestamp": 1,
    });
    let result = json!({"role": "toolResult", "toolCallId": "c|fc_1", "toolName": "t",
        "content": [{"type": "text", "text": "done"}]});
    let further = [answer, result].map(|it| serde_json::from_value::<AgentMessage>(it).unwrap());
    request.messages.extend(further);
    request
}

#[tokio::test]
async fn a_thought_that_was_sealed_for_another_account_does_not_end_the_conversation() {
    let call = json!({"type": "toolCall", "id": "c|fc_1", "name": "t", "arguments": {},
        "thoughtSignature": "c2ln"});
    let sealed =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"});
    let thought =
        json!({"type": "thinking", "thinking": "", "thinkingSignature": sealed.to_string()});
    for (dialect, content, words, refusal) in [
        (
            Dialect::Responses,
            json!([thought, call]),
            ["rs_1", "fc_1"],
            "The encrypted content gAAA...w== could not be verified.",
        ),
        (
            Dialect::Google,
            json!([call]),
            ["c2ln", "thoughtSignature"],
            "Corrupted thought signature.",
        ),
    ] {
        let refusal = json!({"error": {"code": 400, "message": refusal}});
        let whole = Answer::stream(dialect.whole(), Ending::Whole);
        let server = serve(vec![Answer::error(400, &refusal, &[]), whole]).await;
        let (http, retry) = limits();
        let catalog = catalog(dialect, &server.address, http, retry);
        let request = going_on(dialect, &catalog, &content);
        catalog.provider_for(&request.model).stream(&request, &mut |_| {}).await.unwrap();
        let script = server.script.lock();
        let sent: Vec<_> = script.asked.iter().map(|asked| asked.body.to_string()).collect();
        for word in words {
            assert!(sent[0].contains(word) && !sent[1].contains(word), "{dialect:?} {word}");
        }
        // The call and its result stay.
        assert!(sent[1].contains("done"), "{}", sent[1]);
    }
}

#[tokio::test]
async fn a_picture_and_a_thought_that_are_both_refused_go_one_after_the_other() {
    let refused = |text: &str| {
        let refusal = json!({"type": "error", "error": {"type": "invalid_request_error",
            "message": text}});
        Answer::error(400, &refusal, &[])
    };
    let whole = Answer::stream(Dialect::Anthropic.whole(), Ending::Whole);
    let server = serve(vec![
        refused("messages.0.content.0.image: image exceeds 5 MB maximum"),
        // Names a picture, and is not about one.
        refused("messages.1.content.0: `thinking` blocks behind an image cannot be modified"),
        whole,
    ])
    .await;
    let (http, retry) = limits();
    let catalog = catalog(Dialect::Anthropic, &server.address, http, retry);
    let content = json!([
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
        {"type": "toolCall", "id": "c|fc_1", "name": "t", "arguments": {}},
    ]);
    let mut request = going_on(Dialect::Anthropic, &catalog, &content);
    Arc::make_mut(&mut request.model).input = vec![InputKind::Text, InputKind::Image];
    let shown = json!({"role": "user", "timestamp": 1, "content": [
        {"type": "image", "data": "AA==", "mimeType": "image/png"}, {"type": "text", "text": "look"},
    ]});
    request.messages[0] = serde_json::from_value(shown).unwrap();
    catalog.provider_for(&request.model).stream(&request, &mut |_| {}).await.unwrap();
    let kinds = |content: &Value| -> Vec<String> {
        let blocks = content.as_array().unwrap().iter();
        blocks.map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    let script = server.script.lock();
    let sent: Vec<_> = script
        .asked
        .iter()
        .map(|asked| {
            let messages = &asked.body["messages"];
            (kinds(&messages[0]["content"]), kinds(&messages[1]["content"]))
        })
        .collect();
    let blocks =
        |kinds: &[&str]| -> Vec<String> { kinds.iter().map(|kind| (*kind).to_owned()).collect() };
    // What stands for the picture has its place.
    let expected = [
        (blocks(&["image", "text"]), blocks(&["thinking", "tool_use"])),
        (blocks(&["text", "text"]), blocks(&["thinking", "tool_use"])),
        (blocks(&["text", "text"]), blocks(&["tool_use"])),
    ];
    assert_eq!(sent, expected);
    assert_eq!(script.asked[2].body["messages"][0]["content"][1]["text"], "look");
}

#[tokio::test]
async fn a_request_that_is_too_large_without_pictures_is_too_long_a_conversation() {
    let refusal = json!({"type": "error", "error": {"type": "request_too_large",
        "message": "Request exceeds the maximum size"}});
    let refused = || Answer::error(413, &refusal, &[]);
    let server = serve(vec![refused(), refused(), refused()]).await;
    let (http, retry) = limits();
    let catalog = catalog(Dialect::Anthropic, &server.address, http, retry);
    let mut request = plain_request(&catalog);
    Arc::make_mut(&mut request.model).input = vec![InputKind::Text, InputKind::Image];
    let provider = catalog.provider_for(&request.model);
    let error = provider.stream(&request, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::ContextLength);
    // What there is to see is left out first.
    let shown = json!({"role": "user", "timestamp": 1, "content": [
        {"type": "image", "data": "AA==", "mimeType": "image/png"}, {"type": "text", "text": "look"},
    ]});
    let shown = serde_json::from_value(shown).unwrap();
    let request = ModelRequest { messages: vec![shown], ..request };
    let error = provider.stream(&request, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::ContextLength);
    let script = server.script.lock();
    let sent = script.asked.iter().map(|asked| asked.body.to_string().contains("image/png"));
    assert_eq!(sent.collect::<Vec<_>>(), [false, true, false]);
}

#[tokio::test]
async fn a_thought_that_the_provider_does_not_take_back_does_not_end_the_conversation() {
    let refusal = json!({"type": "error", "error": {"type": "invalid_request_error",
        "message": "messages.1.content.0: Invalid `signature` in `thinking` block"}});
    let refused = || Answer::error(400, &refusal, &[]);
    let whole = || Answer::stream(Dialect::Anthropic.whole(), Ending::Whole);
    // Who says the same of a request without thoughts is believed.
    let server = serve(vec![refused(), whole(), whole(), refused()]).await;
    let (http, retry) = limits();
    let catalog = catalog(Dialect::Anthropic, &server.address, http, retry);
    let mut request = plain_request(&catalog);
    request.thinking = ThinkingLevel::Low;
    Arc::make_mut(&mut request.model).reasoning = true;
    let answer = |timestamp: u64| {
        let answer = json!({
            "role": "assistant", "api": "anthropic-messages", "provider": "local", "model": "one",
            "content": [
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
                {"type": "text", "text": "said"},
            ],
            "usage": {}, "stopReason": "stop", "timestamp": timestamp,
        });
        serde_json::from_value::<AgentMessage>(answer).unwrap()
    };
    request.messages.push(answer(1));
    request.messages.push(AgentMessage::User(UserMessage::text("more", 2)));
    let provider = catalog.provider_for(&request.model);
    provider.stream(&request, &mut |_| {}).await.unwrap();
    // It is known from then on; what the model has thought since is its own.
    let mut later = request.clone();
    later.messages.push(answer(3));
    later.messages.push(AgentMessage::User(UserMessage::text("and more", 4)));
    provider.stream(&later, &mut |_| {}).await.unwrap();
    let error = provider.stream(&request, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::BadRequest);
    let script = server.script.lock();
    let sent: Vec<_> = script
        .asked
        .iter()
        .map(|asked| {
            assert_eq!(asked.body["thinking"]["type"], "enabled");
            asked.body["messages"][1]["content"].as_array().unwrap().len()
        })
        .collect();
    assert_eq!(sent, [2, 1, 1, 1]);
    assert_eq!(script.asked[2].body["messages"][3]["content"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_named_without_its_path() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (http, retry) = limits();
    let catalog = catalog(Dialect::OpenAi, &address, http, RetryPolicy { retries: 0, ..retry });
    let model = Arc::clone(&catalog.default_choice().model);
    let provider = catalog.provider_for(&model);
    let request = ModelRequest {
        model,
        system: None,
        messages: vec![],
        tools: vec![],
        thinking: ThinkingLevel::Off,
        session_id: "s".into(),
        needs_pictures: false,
    };
    let error = provider.stream(&request, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Network);
    assert!(
        error.message.starts_with(&format!("Connection error: cannot reach {address}:")),
        "{error}"
    );
}

async fn with_ollama(server: &Server, probe: Duration) -> Catalog {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let limits = HttpLimits { probe, ..HttpLimits::default() };
    let adapters = Adapters::with_limits(&clock, limits, RetryPolicy::default());
    let host = server.address.clone();
    let env = |name: &str| (name == "OLLAMA_HOST").then(|| host.clone());
    let (config, secrets) = (ModelsConfig::default(), ResolvedSecrets::default());
    let sources = CatalogSources::plain(&config, &env, &secrets);
    let catalog = Catalog::build(&adapters, &sources).unwrap();
    let url = catalog.ollama_url().unwrap().to_owned();
    catalog.with_ollama(&url).await
}

#[tokio::test]
async fn an_ollama_that_answers_becomes_the_default() {
    let tags = json!({"models": [{"name": "llama3:8b"}]});
    let details = json!({
        "model_info": {"llama.context_length": 4096}, "capabilities": ["completion", "thinking"],
    });
    let answers = vec![
        Answer::error(200, &tags, &[]),
        Answer::error(200, &details, &[]),
        Answer::stream(
            "{\"message\":{\"content\":\"hi\"},\"done\":false}\n{\"message\":{},\"done\":true}\n",
            Ending::Whole,
        ),
    ];
    let server = serve(answers).await;
    let catalog = with_ollama(&server, Duration::from_secs(10)).await;
    let names: Vec<_> =
        catalog.models().iter().map(|model| model.reference().to_string()).collect();
    assert_eq!(names, ["ollama/llama3:8b", "offline/echo-guide"]);
    let choice = catalog.default_choice();
    assert_eq!(choice.model.id, "llama3:8b");
    assert_eq!(choice.reason, format!("Ollama answers at {}", server.address));
    let request = ModelRequest {
        model: Arc::clone(&choice.model),
        system: None,
        messages: vec![AgentMessage::User(UserMessage::text("hi", 1))],
        tools: vec![ToolSpec {
            name: "t".into(),
            description: String::new(),
            parameters: json!({}),
        }],
        thinking: ThinkingLevel::Off,
        session_id: "s".into(),
        needs_pictures: false,
    };
    catalog.provider_for(&choice.model).stream(&request, &mut |_| {}).await.unwrap();
    let script = server.script.lock();
    let paths: Vec<_> = script.asked.iter().map(|asked| asked.path.as_str()).collect();
    assert_eq!(paths, ["/api/tags", "/api/show", "/api/chat"]);
    assert_eq!(script.asked[1].body, json!({"model": "llama3:8b"}));
    let body = &script.asked[2].body;
    assert_eq!((&body["options"]["num_ctx"], &body["think"]), (&json!(4096), &json!(false)));
    // It has no tools, so it is not sent any.
    assert_eq!(body.get("tools"), None);
}

#[tokio::test]
async fn what_is_no_ollama_or_has_no_model_leaves_the_embedded_model() {
    for answer in [
        Answer::error(200, &json!({"models": []}), &[]),
        Answer::error(404, &json!({}), &[]),
        Answer::stream("not json", Ending::Whole),
        Answer::stream("", Ending::Stall),
    ] {
        let server = serve(vec![answer]).await;
        let catalog = with_ollama(&server, HttpLimits::default().probe).await;
        assert_eq!(catalog.default_choice().model.reference().to_string(), "offline/echo-guide");
    }
}
