//! A Bot API server that enforces the documented rules of the public one:
//! core.telegram.org/bots/api (getting updates, sendMessage, HTML style,
//! editMessageText, getFile, sending files, setWebhook, setMyCommands).

mod marks;
mod queue;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::stage::{serve, until};
use marks::parsed;
use queue::Queue;

pub const TOKEN: &str = "123456:test-token-of-the-bot";
pub const OTHER_TOKEN: &str = "654321:test-token-of-the-other-bot";
const PRESSED: &str = "answerCallbackQuery";
/// Longest text, in UTF-16 units after entities are parsed.
const TEXT_MAX: usize = 4096;
const CAPTION_MAX: usize = 1024;
/// What two clocks may differ by.
const CLOCKS: Duration = Duration::from_millis(50);

/// A message as it is now.
#[derive(Debug, Clone)]
pub struct Shown {
    pub chat: String,
    pub thread: Option<i64>,
    pub text: String,
    pub params: Value,
    pub edits: usize,
}

/// Which bot it serves, and the first of its updates: each bot counts its own.
#[derive(Clone, Copy)]
struct Bot {
    token: &'static str,
    id: i64,
    first_update: i64,
}

impl Default for Bot {
    fn default() -> Self {
        Self { token: TOKEN, id: 99, first_update: 1000 }
    }
}

#[derive(Default)]
struct Inner {
    bot: Bot,
    queue: Mutex<Queue>,
    /// Rings when there is something to give.
    bell: Notify,
    calls: Mutex<Vec<(String, Value)>>,
    shown: Mutex<Vec<Shown>>,
    /// Refusals of the next calls of a method.
    refusals: Mutex<VecDeque<(String, u64, Option<u64>)>>,
    /// The next message is shown and its answer never comes.
    hangs: Mutex<bool>,
    /// The next message is shown and its answer is that of a proxy which lost it.
    loses: Mutex<bool>,
    /// The next edit that is no preview is not made, and its answer never comes.
    holds_edit: Mutex<bool>,
    /// The next edit that is no preview is refused for good.
    refuses_edit: Mutex<bool>,
    /// The chats in which nothing is to be sent for a while …
    left_alone: Mutex<Vec<(String, Instant)>>,
    /// … and how often something was.
    too_early: Mutex<usize>,
    webhook: Mutex<Option<Value>>,
    files: Mutex<Vec<(String, Vec<u8>)>>,
    /// Files that nobody is given yet.
    held: Mutex<Vec<String>>,
    /// Groups that have become supergroups, with their new ids.
    moved: Mutex<Vec<(String, i64)>>,
    wrong_tokens: Mutex<usize>,
    /// How many wait for updates now, and how many did at most: the public one
    /// refuses a second.
    waiting: Mutex<(usize, usize)>,
}

impl Inner {
    /// Waits until a file is held no more.
    async fn lets_go(&self, file: &str) {
        loop {
            let mut rung = std::pin::pin!(self.bell.notified());
            rung.as_mut().enable();
            if !self.held.lock().iter().any(|held| held == file) {
                return;
            }
            rung.await;
        }
    }

    /// Counts a call in a chat that is to be left alone.
    fn look_at_clock(&self, params: &Value) {
        let (chat, now) = (chat_of(params), Instant::now());
        let left_alone = self.left_alone.lock();
        let mut early = left_alone.iter().filter(|(_, until)| now + CLOCKS < *until);
        if early.any(|(left, _)| Some(left) == chat.as_ref()) {
            *self.too_early.lock() += 1;
        }
    }

    /// The id that the chat of a call has now, if that is another.
    fn moved_to(&self, params: &Value) -> Option<i64> {
        let chat = chat_of(params)?;
        self.moved.lock().iter().find(|moved| moved.0 == chat).map(|moved| moved.1)
    }
}

fn chat_of(params: &Value) -> Option<String> {
    match &params["chat_id"] {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Somebody who waits for updates.
struct Waiting<'a>(&'a Inner);

impl<'a> Waiting<'a> {
    fn begin(inner: &'a Inner) -> Self {
        let mut waiting = inner.waiting.lock();
        waiting.0 += 1;
        waiting.1 = waiting.1.max(waiting.0);
        Self(inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().0 -= 1;
    }
}

/// It stops when it is dropped.
pub struct BotApi {
    port: u16,
    inner: Arc<Inner>,
    _server: JoinSet<()>,
}

impl BotApi {
    pub async fn start() -> Self {
        Self::of(Bot::default()).await
    }

    /// One of another bot, whose updates have lower numbers.
    pub async fn start_other() -> Self {
        Self::of(Bot { token: OTHER_TOKEN, id: 100, first_update: 10 }).await
    }

    async fn of(bot: Bot) -> Self {
        let queue = Mutex::new(Queue::starting_at(bot.first_update));
        let inner = Arc::new(Inner { bot, queue, ..Inner::default() });
        let app = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let (port, server) = serve(app).await;
        Self { port, inner, _server: server }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Somebody writes; the update's id.
    pub fn say(&self, message: Value) -> i64 {
        self.tell("message", message)
    }

    /// Somebody presses a button with this value under a message of a chat.
    pub fn press(&self, id: &str, from: i64, chat: Value, value: &str) -> i64 {
        let message = json!({"message_id": 1, "date": 1, "text": "sure?", "chat": chat,
            "from": {"id": self.inner.bot.id, "is_bot": true, "first_name": "Claw"}});
        let who = json!({"id": from, "is_bot": false, "first_name": "Ann"});
        let press = json!({"id": id, "from": who, "message": message, "data": value});
        self.tell("callback_query", press)
    }

    fn tell(&self, kind: &str, what: Value) -> i64 {
        let id = self.inner.queue.lock().put(kind, what);
        self.inner.bell.notify_waiters();
        id
    }

    /// Somebody writes to the bot alone.
    pub fn direct(&self, message_id: i64, from: i64, text: &str) -> i64 {
        self.say(json!({"message_id": message_id, "date": 1, "text": text,
            "from": {"id": from, "is_bot": false, "first_name": "Ann"},
            "chat": {"id": from, "type": "private", "first_name": "Ann"}}))
    }

    /// Updates are numbered anew from here on.
    pub fn number_from(&self, first: i64) {
        self.inner.queue.lock().begin_anew(first);
    }

    /// The numbers of the updates that were given, as often as they were.
    pub fn given(&self) -> Vec<i64> {
        self.inner.queue.lock().given()
    }

    pub fn add_file(&self, id: &str, bytes: &[u8]) {
        self.inner.files.lock().push((id.to_owned(), bytes.to_vec()));
    }

    /// Nobody is given this file until files are let go.
    pub fn hold_file(&self, id: &str) {
        self.inner.held.lock().push(id.to_owned());
    }

    /// No press of a button is taken note of until files are let go.
    pub fn hold_presses(&self) {
        self.hold_file(PRESSED);
    }

    pub fn let_files_go(&self) {
        self.inner.held.lock().clear();
        self.inner.bell.notify_waiters();
    }

    /// A group becomes a supergroup with another id; without a message that tells it.
    pub fn upgrade(&self, from: i64, to: i64) {
        self.inner.moved.lock().push((from.to_string(), to));
    }

    /// The next call of a method is refused.
    pub fn refuse(&self, method: &str, code: u64, retry_after: Option<u64>) {
        self.inner.refusals.lock().push_back((method.to_owned(), code, retry_after));
    }

    /// The next message is shown, and its answer never comes.
    pub fn hang(&self) {
        *self.inner.hangs.lock() = true;
    }

    /// The next edit that is no preview is not made, and its answer never comes.
    pub fn hold_last_edit(&self) {
        *self.inner.holds_edit.lock() = true;
    }

    /// The next edit that is no preview is refused for good.
    pub fn refuse_last_edit(&self) {
        *self.inner.refuses_edit.lock() = true;
    }

    /// How many calls came to a chat before that was to be left alone no more.
    pub fn calls_too_early(&self) -> usize {
        *self.inner.too_early.lock()
    }

    /// The bot has said this before.
    pub fn has_said(&self, chat: &str, text: &str) {
        let (chat, text) = (chat.to_owned(), text.to_owned());
        let said = Shown { chat, thread: None, text, params: Value::Null, edits: 0 };
        self.inner.shown.lock().push(said);
    }

    /// The next message is shown, and its answer is lost on the way.
    pub fn lose_answer(&self) {
        *self.inner.loses.lock() = true;
    }

    pub fn confirmed(&self) -> i64 {
        self.inner.queue.lock().confirmed()
    }

    /// How many have waited for updates at a time.
    pub fn most_waiting(&self) -> usize {
        self.inner.waiting.lock().1
    }

    pub fn webhook(&self) -> Option<Value> {
        self.inner.webhook.lock().clone()
    }

    /// Calls of a method so far.
    pub fn calls(&self, method: &str) -> Vec<Value> {
        assert_eq!(*self.inner.wrong_tokens.lock(), 0, "a call without the bot's token");
        let calls = self.inner.calls.lock();
        calls.iter().filter(|call| call.0 == method).map(|call| call.1.clone()).collect()
    }

    /// All messages as they are now.
    pub fn shown(&self) -> Vec<Shown> {
        self.inner.shown.lock().clone()
    }

    /// Waits until there are so many messages.
    pub async fn shows_at_least(&self, count: usize) {
        until("more messages", async || (self.shown().len() >= count).then_some(())).await;
    }

    /// Waits until the messages are those, by their texts.
    pub async fn shows(&self, texts: &[&str]) -> Vec<Shown> {
        until(&format!("{texts:?} in {:?}", self.shown()), async || {
            let shown = self.shown();
            let now: Vec<_> = shown.iter().map(|it| it.text.as_str()).collect();
            (now == texts).then_some(shown)
        })
        .await
    }
}

async fn answer(
    State(inner): State<Arc<Inner>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (path, token) = (uri.path().to_owned(), inner.bot.token);
    if let Some(rest) = path.strip_prefix(&format!("/file/bot{token}/")) {
        inner.lets_go(rest).await;
        let files = inner.files.lock();
        let found = files.iter().find(|file| file.0 == rest).map(|file| file.1.clone());
        return found
            .map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response);
    }
    let Some(method) = path.strip_prefix(&format!("/bot{token}/")) else {
        *inner.wrong_tokens.lock() += 1;
        return refusal(404, "Not Found", None);
    };
    let params = read(&headers, &body);
    inner.calls.lock().push((method.to_owned(), params.clone()));
    inner.look_at_clock(&params);
    let refused = {
        let mut refusals = inner.refusals.lock();
        let at = refusals.iter().position(|it| it.0 == method);
        at.and_then(|at| refusals.remove(at))
    };
    if let Some((_, code, after)) = refused {
        if let Some((chat, seconds)) = chat_of(&params).zip(after) {
            let until = Instant::now() + Duration::from_secs(seconds);
            inner.left_alone.lock().push((chat, until));
        }
        let parameters = after.map(|seconds| json!({"retry_after": seconds}));
        return refusal(code, "Too Many Requests: retry later", parameters);
    }
    if let Some(to) = inner.moved_to(&params) {
        let text = "Bad Request: group chat was upgraded to a supergroup chat";
        return refusal(400, text, Some(json!({"migrate_to_chat_id": to})));
    }
    let is_last_edit = method == "editMessageText" && !params["parse_mode"].is_null();
    if is_last_edit && std::mem::take(&mut *inner.holds_edit.lock()) {
        tokio::time::sleep(Duration::from_mins(5)).await;
    }
    if is_last_edit && std::mem::take(&mut *inner.refuses_edit.lock()) {
        return refusal(400, "Bad Request: MESSAGE_ID_INVALID", None);
    }
    match call(&inner, method, &params).await {
        Ok(result) => {
            if method == "sendMessage" && std::mem::take(&mut *inner.hangs.lock()) {
                tokio::time::sleep(Duration::from_mins(5)).await;
            }
            if method == "sendMessage" && std::mem::take(&mut *inner.loses.lock()) {
                return refusal(502, "Bad Gateway", None);
            }
            written(200, &json!({"ok": true, "result": result}))
        }
        Err((code, text)) => refusal(code, &text, None),
    }
}

fn written(status: u64, body: &Value) -> Response {
    let status = StatusCode::from_u16(u16::try_from(status).unwrap()).unwrap();
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}

fn refusal(code: u64, text: &str, parameters: Option<Value>) -> Response {
    let mut body = json!({"ok": false, "error_code": code, "description": text});
    if let Some(parameters) = parameters {
        body["parameters"] = parameters;
    }
    written(code, &body)
}

/// JSON, or the fields of a form; a file is its length.
fn read(headers: &HeaderMap, body: &Bytes) -> Value {
    let kind = headers.get("content-type").and_then(|it| it.to_str().ok()).unwrap_or_default();
    let Some((_, boundary)) = kind.split_once("boundary=") else {
        return serde_json::from_slice(body).unwrap_or_default();
    };
    let text = String::from_utf8_lossy(body);
    let mut fields = Map::new();
    for part in text.split(&format!("--{boundary}")) {
        let Some((head, content)) = part.split_once("\r\n\r\n") else { continue };
        let name = head.split("name=\"").nth(1).and_then(|it| it.split('"').next()).unwrap();
        let content = content.trim_end_matches("\r\n");
        let is_file = head.contains("filename=");
        let value =
            if is_file { format!("file of {} bytes", content.len()) } else { content.into() };
        fields.insert(name.to_owned(), Value::String(value));
    }
    Value::Object(fields)
}

type Answer = Result<Value, (u64, String)>;

fn bad(text: &str) -> Answer {
    Err((400, format!("Bad Request: {text}")))
}

async fn call(inner: &Inner, method: &str, params: &Value) -> Answer {
    match method {
        "getMe" => Ok(json!({"id": inner.bot.id, "is_bot": true, "first_name": "Claw",
            "username": "claw_bot"})),
        "setWebhook" => {
            *inner.webhook.lock() = Some(params.clone());
            Ok(json!(true))
        }
        "deleteWebhook" => {
            *inner.webhook.lock() = None;
            Ok(json!(true))
        }
        "setMyCommands" => menu(params),
        "getUpdates" => updates(inner, params).await,
        "getFile" => {
            let id = params["file_id"].as_str().unwrap_or_default();
            let files = inner.files.lock();
            match files.iter().find(|file| file.0 == id) {
                Some(file) => {
                    Ok(json!({"file_id": id, "file_path": id, "file_size": file.1.len()}))
                }
                None => bad("invalid file_id"),
            }
        }
        "sendChatAction" | "setMessageReaction" | "deleteMessage" | "pinChatMessage" => {
            Ok(json!(true))
        }
        PRESSED => {
            inner.lets_go(PRESSED).await;
            Ok(json!(true))
        }
        "sendMessage" => send(inner, params, "text", TEXT_MAX),
        "sendPhoto" | "sendDocument" | "sendVoice" => send(inner, params, "caption", CAPTION_MAX),
        "sendPoll" => {
            let options = params["options"].as_array().map_or(0, Vec::len);
            if !(2..=12).contains(&options) {
                bad("poll must have 2-12 options")
            } else {
                send(inner, params, "question", 300)
            }
        }
        "editMessageText" => edit(inner, params),
        _ => Err((404, "Not Found: method not found".into())),
    }
}

async fn updates(inner: &Inner, params: &Value) -> Answer {
    if inner.webhook.lock().is_some() {
        return Err((409, "Conflict: can't use getUpdates method while webhook is active".into()));
    }
    let _waiting = Waiting::begin(inner);
    if let Some(offset) = params["offset"].as_i64() {
        inner.queue.lock().confirm(offset);
    }
    // Much shorter than the real wait, so that no test waits for it.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(2);
    loop {
        let mut rung = std::pin::pin!(inner.bell.notified());
        rung.as_mut().enable();
        let limit = usize::try_from(params["limit"].as_u64().unwrap_or(100)).unwrap();
        let fresh = inner.queue.lock().give(limit);
        if !fresh.is_empty() {
            return Ok(json!(fresh));
        }
        if tokio::time::timeout_at(deadline, rung).await.is_err() {
            return Ok(json!([]));
        }
    }
}

fn menu(params: &Value) -> Answer {
    let commands = params["commands"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_sign = |sign: char| matches!(sign, 'a'..='z' | '0'..='9' | '_');
    let is_right = |command: &Value| {
        let (name, about) = (command["command"].as_str(), command["description"].as_str());
        name.is_some_and(|name| (1..=32).contains(&name.len()) && name.chars().all(is_sign))
            && about.is_some_and(|about| (1..=256).contains(&about.chars().count()))
    };
    if commands.len() > 100 {
        return bad("BOT_COMMANDS_TOO_MUCH");
    }
    if commands.iter().all(is_right) { Ok(json!(true)) } else { bad("BOT_COMMAND_INVALID") }
}

fn send(inner: &Inner, params: &Value, member: &str, max: usize) -> Answer {
    let Some(chat) = chat_of(params) else { return bad("chat_id is empty") };
    if chat == "404" {
        return bad("chat not found");
    }
    if params["message_thread_id"] == 404 {
        return bad("message thread not found");
    }
    let text = parsed(params, member)?;
    if member == "text" && text.trim().is_empty() {
        return bad("message text is empty");
    }
    if text.encode_utf16().count() > max {
        return bad("message is too long");
    }
    let mut shown = inner.shown.lock();
    shown.push(Shown {
        chat: chat.clone(),
        thread: params["message_thread_id"].as_i64(),
        text,
        params: params.clone(),
        edits: 0,
    });
    Ok(json!({"message_id": shown.len(), "chat": {"id": chat}, "date": 1}))
}

fn edit(inner: &Inner, params: &Value) -> Answer {
    let text = parsed(params, "text")?;
    if text.encode_utf16().count() > TEXT_MAX {
        return bad("MESSAGE_TOO_LONG");
    }
    let mut shown = inner.shown.lock();
    let at = params["message_id"].as_u64().and_then(|id| usize::try_from(id).ok()?.checked_sub(1));
    let Some(message) = at.and_then(|at| shown.get_mut(at)) else {
        return bad("message to edit not found");
    };
    let same_style = message.params["parse_mode"] == params["parse_mode"];
    if message.text == text && same_style {
        return bad("message is not modified: specified new message content and reply markup are \
            exactly the same");
    }
    message.text = text;
    message.params = params.clone();
    message.edits += 1;
    Ok(json!({"message_id": params["message_id"]}))
}
