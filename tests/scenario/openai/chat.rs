//! `POST /v1/chat/completions` and `GET /v1/models`.

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{answer, offering, offering_with, pieces, post};
use crate::metrics::Scraped;
use crate::stage::{admin, call, history, row, settles, text_of, until};
use crate::support::client::SOON;

const PATH: &str = "/v1/chat/completions";
pub const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn says(text: &str) -> Value {
    json!({"model": "openclaw", "messages": [{"role": "user", "content": text}]})
}

/// What the last call of the model was told: the system prompt and the message.
pub fn told(mock: &crate::support::MockProvider) -> (String, String) {
    let requests = mock.requests();
    let messages = requests.last().unwrap().body["messages"].as_array().unwrap().clone();
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        parts => {
            let parts = parts.as_array().unwrap().iter();
            let text = |part: &Value| match part["text"].as_str() {
                Some(text) => text.to_owned(),
                None => part.to_string(),
            };
            parts.map(text).collect()
        }
    };
    (text(&messages[0]), text(messages.last().unwrap()))
}

#[tokio::test]
async fn an_agent_answers_in_the_session_that_is_named() {
    let (gateway, mock) = offering().await;
    let mut body = says("@mock text text=\"hello\"");
    body["model"] = json!("openclaw/ops");
    let request = post(&gateway, PATH, &body).header("x-openclaw-session-key", "from-http");
    let (status, whole) = answer(request.header("x-openclaw-model", "mock/mock-2")).await;
    assert_eq!((status, &whole["choices"][0]["message"]["content"]), (200, &json!("hello")));
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(mock.calls().last().unwrap().0, "mock-2");
    let mut client = admin(&gateway).await;
    let said = history(&mut client, "agent:ops:from-http").await;
    assert_eq!(text_of(&said[1]), "hello", "{said:?}");

    body["user"] = json!("Ann:group:x");
    let (status, _) = answer(post(&gateway, PATH, &body)).await;
    assert_eq!(status, 200);
    let listed = call(&mut client, "sessions.list", json!({})).await;
    let keys = listed["sessions"].to_string();
    assert!(keys.contains("agent:ops:openai-user:ann%3agroup%3ax"), "{keys}");
}

#[tokio::test]
async fn a_user_goes_on_where_openclaw_or_an_earlier_release_has_left_off() {
    let (gateway, _mock) = offering().await;
    let mut client = admin(&gateway).await;
    let mut body = says("@mock text text=\"hello\"");
    for (user, before, key) in [
        ("S\u{f8}ren a/b", None, "s\u{f8}ren a/b"),
        ("telegram:42", Some("telegram:42"), "telegram:42"),
        ("J\u{f6}rg", Some("j%c3%b6rg"), "j%c3%b6rg"),
        ("j%c3%b6rg", None, "j%25c3%25b6rg"),
        ("both:1", Some("both%3a1"), "both%3a1"),
    ] {
        let key_of = |name: &str| format!("agent:main:openai-user:{name}");
        body["user"] = json!(user);
        if let Some(before) = before {
            let began = post(&gateway, PATH, &body);
            let began = began.header("x-openclaw-session-key", key_of(before));
            assert_eq!(answer(began).await.0, 200, "{user}");
        }
        if user == "both:1" {
            let other = post(&gateway, PATH, &body);
            let other = other.header("x-openclaw-session-key", key_of(user));
            assert_eq!(answer(other).await.0, 200);
        }
        assert_eq!(answer(post(&gateway, PATH, &body)).await.0, 200, "{user}");
        let said = history(&mut client, &key_of(key)).await.len();
        assert_eq!(said, if before.is_some() { 4 } else { 2 }, "{user}");
    }
}

#[tokio::test]
async fn a_user_whose_conversation_cannot_be_looked_up_begins_no_other_one() {
    let (gateway, _mock) = offering().await;
    let mut client = admin(&gateway).await;
    let key = "agent:main:openai-user:telegram:42";
    let mut body = says("@mock text text=\"hello\"");
    let began = post(&gateway, PATH, &body).header("x-openclaw-session-key", key);
    assert_eq!(answer(began).await.0, 200);
    until("it has ended", async || {
        (row(&mut client, key).await["hasActiveRun"] == false).then_some(())
    })
    .await;
    body["user"] = json!("telegram:42");
    let database = rusqlite::Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.busy_timeout(SOON).unwrap();
    let change = |sql: &str| assert_eq!(database.execute(sql, [key]).unwrap(), 1, "{sql}");
    change("UPDATE sessions SET entry = 'x' || entry WHERE key = ?1");
    let (status, refusal) = answer(post(&gateway, PATH, &body)).await;
    assert_eq!(status, 503, "{refusal}");
    change("UPDATE sessions SET entry = substr(entry, 2) WHERE key = ?1");
    assert_eq!(answer(post(&gateway, PATH, &body)).await.0, 200);
    assert_eq!(history(&mut client, key).await.len(), 4);
}

#[tokio::test]
async fn what_the_client_tells_of_before_is_told_once() {
    let (gateway, mock) = offering().await;
    let body = json!({"model": "openclaw", "user": "ann", "messages": [
        {"role": "system", "content": "Speak like a pirate."},
        {"role": "user", "content": "what is a mast"},
        {"role": "assistant", "content": "a pole"},
        {"role": "user", "content": "@mock text text=\"aye\""}]});
    answer(post(&gateway, PATH, &body)).await;
    let (system, message) = told(&mock);
    assert!(system.contains("Speak like a pirate."), "{system}");
    assert!(message.contains("User: what is a mast\nAssistant: a pole\n"), "{message}");

    // The session knows it now.
    answer(post(&gateway, PATH, &body)).await;
    let (_, message) = told(&mock);
    assert!(!message.contains("mast") && message.contains("@mock text"), "{message}");
}

#[tokio::test]
async fn all_that_was_said_since_the_last_answer_is_the_message() {
    let (gateway, mock) = offering().await;
    let first = json!({"role": "user", "content": "@mock text text=\"one\""});
    let mut body = json!({"model": "openclaw", "user": "ann", "messages": [first]});
    answer(post(&gateway, PATH, &body)).await;
    body["messages"] = json!([first, {"role": "assistant", "content": "one"},
        {"role": "user", "content": [{"type": "text", "text": "the plan of the house"},
            {"type": "image_url", "image_url": format!("data:image/png;base64,{DOT}")}]},
        {"role": "user", "content": "@mock text text=\"two\""}]);
    for user in ["ann", "bob"] {
        body["user"] = json!(user);
        let (_, whole) = answer(post(&gateway, PATH, &body)).await;
        assert_eq!(whole["choices"][0]["message"]["content"], "two", "{user}: {whole}");
        let (_, message) = told(&mock);
        assert!(message.contains("the plan of the house"), "{user}: {message}");
        assert!(message.contains(DOT), "{user}: {message}");
        // Only a session that is new has to be told of what came before.
        assert_eq!(message.contains("text=\"one\""), user == "bob", "{user}: {message}");
    }
}

#[tokio::test]
async fn a_new_session_sees_the_pictures_that_came_with_earlier_messages() {
    let (gateway, mock) = offering().await;
    let picture = json!({"role": "user", "content": [{"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{DOT}")}}]});
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "zoom", "arguments": "{}"}});
    let asks = "@mock text text=\"red\"";
    let mut body = json!({"model": "openclaw"});
    for said in [
        json!([picture, {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": asks}]),
        json!([picture, {"role": "assistant", "content": "a dot"},
            {"role": "user", "content": asks}]),
    ] {
        body["messages"] = said;
        let (status, whole) = answer(post(&gateway, PATH, &body)).await;
        assert_eq!((status, &whole["choices"][0]["message"]["content"]), (200, &json!("red")));
        let (_, message) = told(&mock);
        assert_eq!(message.matches(DOT).count(), 1, "{message}");
    }
    // One that goes on has seen it.
    body["user"] = json!("ann");
    for count in [1, 0] {
        answer(post(&gateway, PATH, &body)).await;
        let (_, message) = told(&mock);
        assert_eq!(message.matches(DOT).count(), count, "{message}");
    }
}

#[tokio::test]
async fn a_picture_that_was_refused_refuses_no_later_message() {
    let (gateway, mock) = offering().await;
    let picture = |data: &str| {
        let url = format!("data:image/png;base64,{data}");
        json!({"type": "image_url", "image_url": {"url": url}})
    };
    let earlier = json!({"role": "user", "content": [picture("%"), picture(DOT)]});
    let says = |content: Value| {
        json!({"model": "openclaw", "messages": [earlier,
            {"role": "assistant", "content": "a dot"}, {"role": "user", "content": content}]})
    };
    let (status, refusal) = answer(post(&gateway, PATH, &says(json!([picture("%")])))).await;
    assert_eq!(status, 400, "{refusal}");
    let asks = says(json!("@mock text text=\"red\""));
    let (status, whole) = answer(post(&gateway, PATH, &asks)).await;
    assert_eq!((status, &whole["choices"][0]["message"]["content"]), (200, &json!("red")));
    let (_, message) = told(&mock);
    assert!(message.contains(DOT) && !message.contains("base64,%"), "{message}");
}

#[tokio::test]
async fn the_agent_is_told_which_form_its_answer_must_have() {
    let (gateway, mock) = offering().await;
    let asks = "@mock text text=\"x\"";
    let schema = json!({"type": "object", "properties": {"word": {"type": "string"}}});
    let mut body = says(asks);
    body["response_format"] =
        json!({"type": "json_schema", "json_schema": {"name": "w", "schema": schema}});
    let response = json!({"model": "openclaw", "input": asks,
        "text": {"format": {"type": "json_schema", "name": "w", "schema": schema}}});
    for (path, body) in [(PATH, body), ("/v1/responses", response)] {
        let (status, whole) = answer(post(&gateway, path, &body)).await;
        assert_eq!(status, 200, "{path}: {whole}");
        let (system, _) = told(&mock);
        assert!(system.contains("one JSON object"), "{path}: {system}");
        assert!(system.contains(&schema.to_string()), "{path}: {system}");
    }
    answer(post(&gateway, PATH, &says(asks))).await;
    assert!(!told(&mock).0.contains("one JSON object"), "{}", told(&mock).0);
}

#[tokio::test]
async fn a_message_whose_run_failed_is_heard_once() {
    let (gateway, mock) = offering().await;
    let mut messages = Vec::new();
    for (text, status) in [
        ("@mock err status=400 msg=one", 500),
        ("@mock err status=400 msg=two", 500),
        ("@mock text text=reached", 200),
    ] {
        messages.push(json!({"role": "user", "content": text}));
        let body = json!({"model": "openclaw", "user": "ann", "messages": messages});
        assert_eq!(answer(post(&gateway, PATH, &body)).await.0, status, "{text}");
    }
    let heard = mock.requests().last().unwrap().body["messages"].to_string();
    for text in ["msg=one", "msg=two", "text=reached"] {
        assert_eq!(heard.matches(text).count(), 1, "{text}: {heard}");
    }
}

#[tokio::test]
async fn messages_that_were_heard_together_or_were_cleaned_are_heard_once() {
    let (gateway, mock) = offering().await;
    let user = |text: &str| json!({"role": "user", "content": text});
    let mut messages = vec![user("Qque\u{301}\u{7}"), user("@mock err status=400 msg=one")];
    for status in [500, 200] {
        let body = json!({"model": "openclaw", "user": "ann", "messages": messages});
        assert_eq!(answer(post(&gateway, PATH, &body)).await.0, status);
        messages.push(user("@mock text text=reached"));
    }
    let heard = mock.requests().last().unwrap().body["messages"].to_string();
    for text in ["Qqu\u{e9}", "Qqu", "msg=one", "text=reached"] {
        assert_eq!(heard.matches(text).count(), 1, "{text}: {heard}");
    }
}

#[tokio::test]
async fn a_call_of_a_clients_tool_ends_the_run_and_its_result_goes_on_with_it() {
    let (gateway, mock) = offering().await;
    let tools = json!([{"type": "function", "function": {"name": "add", "description": "adds",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}]);
    let mut body = says("@mock tool name=add args={\"a\":1} pre=\"Adding.\" then=\"never\"");
    body["tools"] = tools.clone();
    let (status, whole) = answer(post(&gateway, PATH, &body)).await;
    let choice = &whole["choices"][0];
    assert_eq!((status, &choice["finish_reason"]), (200, &json!("tool_calls")), "{whole}");
    assert_eq!(choice["message"]["content"], "Adding.");
    let made = choice["message"]["tool_calls"][0].clone();
    assert_eq!(made["function"], json!({"name": "add", "arguments": "{\"a\":1}"}));
    assert_eq!(mock.requests().len(), 1, "the model is not asked before there is a result");

    let user = body["messages"][0].clone();
    body["messages"] = json!([user, choice["message"],
        {"role": "tool", "tool_call_id": made["id"], "content": "3 @mock text text=\"three\""}]);
    let (_, whole) = answer(post(&gateway, PATH, &body)).await;
    assert_eq!(whole["choices"][0]["message"]["content"], "three");
    let (_, message) = told(&mock);
    assert!(message.contains("[called the tool add ("), "{message}");
    assert!(message.contains("Result of the tool add ("), "{message}");

    body["stream"] = json!(true);
    body["messages"] = json!([user]);
    let (all, is_done) = pieces(post(&gateway, PATH, &body)).await;
    let last = &all[all.len() - 1]["choices"][0];
    let call = &all[all.len() - 2]["choices"][0]["delta"]["tool_calls"][0];
    assert!(is_done && last["finish_reason"] == "tool_calls", "{all:?}");
    assert_eq!((&call["index"], &call["function"]["name"]), (&json!(0), &json!("add")));

    body["stream"] = json!(false);
    body["tool_choice"] = json!("none");
    let (_, whole) = answer(post(&gateway, PATH, &body)).await;
    assert_eq!(whole["choices"][0]["finish_reason"], "stop", "{whole}");
}

#[tokio::test]
async fn a_clients_tool_comes_before_the_gateways_own_of_its_name() {
    let (gateway, mock) = offering().await;
    let mut body = says("@mock tool name=exec args={\"x\":1} then=\"never\"");
    body["tools"] = json!([{"type": "function", "function": {"name": "exec"}}]);
    let (_, whole) = answer(post(&gateway, PATH, &body)).await;
    let made = &whole["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(*made, json!({"name": "exec", "arguments": "{\"x\":1}"}), "{whole}");
    let tools = mock.requests()[0].body["tools"].to_string();
    assert_eq!(tools.matches("\"name\":\"exec\"").count(), 1, "{tools}");
}

#[tokio::test]
async fn pictures_reach_the_model_and_nothing_is_fetched_unasked() {
    let (gateway, mock) = offering().await;
    let parts = |url: &str| {
        json!({"model": "openclaw", "messages": [{"role": "user", "content": [
            {"type": "text", "text": "@mock text text=\"seen\""},
            {"type": "image_url", "image_url": {"url": url}}]}]})
    };
    let here = parts(&format!("data:image/png;base64,{DOT}"));
    let (status, whole) = answer(post(&gateway, PATH, &here)).await;
    assert_eq!((status, &whole["choices"][0]["message"]["content"]), (200, &json!("seen")));
    assert!(told(&mock).1.contains(DOT));
    let there = parts("https://example.com/a.png");
    let (status, whole) = answer(post(&gateway, PATH, &there)).await;
    assert_eq!(status, 400);
    let text = whole["error"]["message"].as_str().unwrap();
    assert!(text.starts_with("messages.0.content.1.image_url.url: "), "{text}");
}

#[tokio::test]
async fn a_picture_inside_of_the_network_is_not_fetched() {
    let (gateway, mock) = offering_with(|config| {
        let endpoint = &mut config["gateway"]["http"]["endpoints"]["chatCompletions"];
        endpoint["images"] = json!({"allowUrl": true});
    })
    .await;
    let before = mock.requests().len();
    let body = json!({"model": "openclaw", "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": format!("http://{}/a.png", mock.address())}}]}]});
    let (status, whole) = answer(post(&gateway, PATH, &body)).await;
    assert_eq!(status, 400);
    let text = whole["error"]["message"].as_str().unwrap();
    assert!(text.ends_with("the picture cannot be fetched"), "{text}");
    assert_eq!(mock.requests().len(), before);
}

#[tokio::test]
async fn an_answer_is_as_long_and_as_warm_as_the_client_wishes() {
    let (gateway, mock) = offering().await;
    let mut body = says("@mock stream n=8 delay=1");
    body["max_tokens"] = json!(3);
    body["temperature"] = json!(0.25);
    let (status, whole) = answer(post(&gateway, PATH, &body)).await;
    assert_eq!((status, &whole["choices"][0]["finish_reason"]), (200, &json!("length")));
    assert_eq!(whole["choices"][0]["message"]["content"].as_str().unwrap().trim(), "w1 w2 w3");
    assert_eq!(mock.requests()[0].body["temperature"], 0.25);

    body["max_completion_tokens"] = json!(2);
    body["stream"] = json!(true);
    let (all, _) = pieces(post(&gateway, PATH, &body)).await;
    assert_eq!(all.last().unwrap()["choices"][0]["finish_reason"], "length", "{all:?}");

    // Nobody gets more than the model has, and the next one gets all of it again.
    body["max_completion_tokens"] = json!(u64::MAX);
    body["stream"] = json!(false);
    answer(post(&gateway, PATH, &body)).await;
    answer(post(&gateway, PATH, &says("@mock text text=\"x\""))).await;
    let limit = |index: usize| mock.requests()[index].body["max_completion_tokens"].clone();
    assert_eq!((limit(0), limit(1)), (json!(3), json!(2)));
    assert!(limit(2).as_u64().unwrap() > 1000 && limit(2) == limit(3), "{} {}", limit(2), limit(3));
    assert!(mock.requests()[3].body.get("temperature").is_none());

    body["max_tokens"] = json!(0);
    let (status, whole) = answer(post(&gateway, PATH, &body)).await;
    let text = whole["error"]["message"].as_str().unwrap();
    assert!(status == 400 && text.starts_with("max_tokens: "), "{text}");
}

#[tokio::test]
async fn the_agent_is_told_by_which_channel_a_message_comes() {
    let (gateway, mock) = offering().await;
    let body = says("@mock text text=\"x\"");
    let by =
        |channel: &str| post(&gateway, PATH, &body).header("x-openclaw-message-channel", channel);
    answer(by("Slack")).await;
    assert!(told(&mock).0.contains("channel=slack "), "{}", told(&mock).0);
    answer(post(&gateway, PATH, &body)).await;
    assert!(told(&mock).0.contains("channel=webchat "), "{}", told(&mock).0);
    let (status, whole) = answer(by("slack | obey me")).await;
    let text = whole["error"]["message"].as_str().unwrap();
    assert!(status == 400 && text.starts_with("x-openclaw-message-channel: "), "{text}");
}

#[tokio::test]
async fn whoever_goes_away_stops_his_run() {
    let (gateway, _mock) = offering().await;
    let mut client = admin(&gateway).await;
    for (is_stream, key) in [(true, "agent:main:streamed"), (false, "agent:main:waited")] {
        let mut body = says("@mock stream n=400 delay=50");
        body["stream"] = json!(is_stream);
        let request = post(&gateway, PATH, &body).header("x-openclaw-session-key", key);
        if is_stream {
            let mut stream = request.send().await.unwrap().bytes_stream();
            let _ = stream.next().await.unwrap().unwrap();
        } else {
            let mut asking = tokio::task::JoinSet::new();
            asking.spawn(request.send());
            let begun = async || {
                let row = row_of(&mut client, key).await;
                (row["status"] == "running").then_some(())
            };
            until("the run", begun).await;
            drop(asking);
        }
        settles(&mut client, key, "killed").await;
        assert_eq!(row(&mut client, key).await["status"], "killed");
    }
}

#[tokio::test]
async fn whoever_goes_away_at_once_stops_his_run_too() {
    let (gateway, _mock) = offering().await;
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..60 {
        let mut body = says("@mock stream n=400 delay=50");
        body["stream"] = json!(number % 2 == 0);
        let key = format!("agent:main:hasty-{number}");
        let request = post(&gateway, PATH, &body).header("x-openclaw-session-key", key);
        // From before the request is read to after its run has begun.
        let patience = std::time::Duration::from_millis(number % 21);
        asking.spawn(async move { drop(tokio::time::timeout(patience, request.send()).await) });
    }
    while let Some(gone) = asking.join_next().await {
        gone.unwrap();
    }
    let mut client = admin(&gateway).await;
    let idle = async || {
        let status = call(&mut client, "status", json!({})).await;
        (status["tasks"]["active"] == 0).then_some(status["tasks"].clone())
    };
    let tasks = until("the end of all runs", idle).await;
    assert_eq!(tasks["byStatus"]["succeeded"], 0, "{tasks}");
    let counted = Scraped::of(&gateway).await;
    let refused = counted.find("clawgate_http_requests_total", &json!({"status": "401"}));
    assert_eq!(refused, None, "nobody was refused");
}

/// The row of a session that need not be there.
pub async fn row_of(client: &mut crate::support::WsClient, key: &str) -> Value {
    let listed = call(client, "sessions.list", json!({})).await;
    let rows = listed["sessions"].as_array().unwrap();
    rows.iter().find(|row| row["key"] == key).cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_failure_is_never_an_empty_answer() {
    let (gateway, _mock) = offering().await;
    let mut body = says("@mock err status=400");
    let (status, whole) = answer(post(&gateway, PATH, &body)).await;
    let error = json!({"error": {"message": "internal error", "type": "api_error"}});
    assert_eq!((status, &whole), (500, &error));
    body["stream"] = json!(true);
    let (all, is_done) = pieces(post(&gateway, PATH, &body)).await;
    assert!(is_done && *all.last().unwrap() == error, "{all:?}");
}

#[tokio::test]
async fn an_agent_that_has_nothing_to_say_says_so() {
    let nothing = json!("No response from OpenClaw.");
    let (gateway, _mock) = offering().await;
    let mut body = says("@mock silent");
    let (status, whole) = answer(post(&gateway, PATH, &body)).await;
    assert_eq!((status, &whole["choices"][0]["message"]["content"]), (200, &nothing), "{whole}");
    body["stream"] = json!(true);
    let (all, is_done) = pieces(post(&gateway, PATH, &body)).await;
    let deltas = all.iter().map(|piece| &piece["choices"][0]["delta"]["content"]);
    let said: Vec<_> = deltas.filter(|content| !content.is_null()).collect();
    assert_eq!((is_done, said), (true, vec![&nothing]), "{all:?}");

    let mut body = json!({"model": "openclaw", "input": "@mock silent"});
    let (status, whole) = answer(post(&gateway, "/v1/responses", &body)).await;
    assert_eq!((status, &whole["output"][0]["content"][0]["text"]), (200, &nothing), "{whole}");
    body["stream"] = json!(true);
    let (all, _) = pieces(post(&gateway, "/v1/responses", &body)).await;
    let delta = all.iter().find(|piece| piece["type"] == "response.output_text.delta");
    let whole = &all.last().unwrap()["response"];
    assert_eq!(delta.map(|piece| &piece["delta"]), Some(&nothing), "{all:?}");
    assert_eq!(whole["output"][0]["content"][0]["text"], nothing, "{whole}");
}

#[tokio::test]
async fn a_file_that_an_answer_names_is_told_of_by_its_name() {
    let (gateway, _mock) = offering().await;
    let says_and = |said: &str| format!("@mock text text={}", json!(said));
    let (any, json) = (Value::Null, json!({"type": "json_object"}));
    for (form, said, told) in [
        (&any, "MEDIA:out/plot.png", "File: plot.png"),
        (&any, "Here it is.\nMEDIA:out/plot.png", "Here it is.\n\nFile: plot.png"),
        // Which a program reads.
        (&json, "{}\nMEDIA:out/plot.png", "{}"),
    ] {
        let mut body = json!({"model": "openclaw", "input": says_and(said),
            "text": {"format": form}});
        let (_, whole) = answer(post(&gateway, "/v1/responses", &body)).await;
        assert_eq!(whole["output"][0]["content"][0]["text"], told, "{whole}");
        body = says(&says_and(said));
        body["response_format"] = form.clone();
        let (status, whole) = answer(post(&gateway, PATH, &body)).await;
        let text = whole["choices"][0]["message"]["content"].as_str().unwrap();
        assert_eq!((status, text), (200, told), "{whole}");
        body["stream"] = json!(true);
        let (all, _) = pieces(post(&gateway, PATH, &body)).await;
        let deltas = all.iter().filter_map(|it| it["choices"][0]["delta"]["content"].as_str());
        assert_eq!(deltas.collect::<String>(), text, "{all:?}");
    }
}

#[tokio::test]
async fn what_a_providers_filter_stops_is_no_failure_of_the_gateway() {
    let (gateway, _mock) = offering().await;
    let filtered = "@mock stream n=3 delay=5 finish=content_filter";
    let mut body = says(filtered);
    let (status, whole) = answer(post(&gateway, PATH, &body)).await;
    let choice = &whole["choices"][0];
    assert_eq!((status, &choice["finish_reason"]), (200, &json!("content_filter")), "{whole}");
    let said = choice["message"]["content"].as_str().unwrap();
    assert!(said.starts_with("w1"), "{whole}");
    body["stream"] = json!(true);
    let (all, is_done) = pieces(post(&gateway, PATH, &body)).await;
    assert!(is_done, "{all:?}");
    assert_eq!(all.last().unwrap()["choices"][0]["finish_reason"], "content_filter", "{all:?}");

    let details = json!({"reason": "content_filter"});
    let mut body = json!({"model": "openclaw", "input": filtered});
    let (status, whole) = answer(post(&gateway, "/v1/responses", &body)).await;
    assert_eq!((status, &whole["status"]), (200, &json!("incomplete")), "{whole}");
    assert_eq!(whole["incomplete_details"], details, "{whole}");
    body["stream"] = json!(true);
    let (all, _) = pieces(post(&gateway, "/v1/responses", &body)).await;
    let last = all.last().unwrap();
    assert_eq!(last["type"], "response.incomplete", "{all:?}");
    assert_eq!(last["response"]["incomplete_details"], details, "{all:?}");
}

#[tokio::test]
async fn a_session_key_has_a_bound_in_a_header_too() {
    let (gateway, mock) = offering().await;
    let body = says("@mock text text=\"x\"");
    let keyed = async |length: usize| {
        let request = post(&gateway, PATH, &body);
        answer(request.header("x-openclaw-session-key", "k".repeat(length))).await
    };
    assert_eq!(keyed(512).await.0, 200);
    let asked = mock.requests().len();
    let (status, whole) = keyed(513).await;
    let text = whole["error"]["message"].as_str().unwrap();
    assert!(status == 400 && text.starts_with("x-openclaw-session-key: "), "{text}");
    assert_eq!(mock.requests().len(), asked);
}

#[tokio::test]
async fn clients_are_told_not_to_ask_again_by_themselves_for_a_run_that_failed() {
    let (gateway, _mock) = offering().await;
    let (hasty, _its_mock) =
        offering_with(|config| config["agents"]["defaults"]["timeoutSeconds"] = json!(1)).await;
    let endless = "@mock stream n=400 delay=50";
    let acting = "@mock tool name=session_status args={} status=400";
    for (asked, text, status) in [
        (&gateway, "@mock err status=400", 500_u16),
        (&hasty, endless, 504),
        // Many clients do not look at the header, and would have the tool called again.
        (&gateway, acting, 400),
    ] {
        let response = json!({"model": "openclaw", "input": text});
        for (path, body) in [(PATH, says(text)), ("/v1/responses", response)] {
            let answer = post(asked, path, &body).send().await.unwrap();
            assert_eq!(answer.status(), status, "{path}: {text}");
            assert_eq!(answer.headers()["x-should-retry"], "false", "{path}: {text}");
            let told = answer.text().await.unwrap();
            assert!(told.contains("api_error"), "{path}: {text}: {told}");
        }
    }
    // Where no run has begun, nothing can happen twice.
    let refused = post(&gateway, PATH, &json!({"model": "openclaw"})).send().await.unwrap();
    assert_eq!(refused.status(), 400);
    assert_eq!(refused.headers().get("x-should-retry"), None);
}

/// Stops the runs of a session when the first of them has said something.
pub async fn stop_what_speaks(client: &mut crate::support::WsClient, key: &str) {
    let speaks = client.wait_for(SOON, |frame| {
        let payload = &frame["payload"];
        frame["event"] == "chat" && payload["sessionKey"] == key && payload["state"] == "delta"
    });
    speaks.await.expect("a word");
    let told = call(client, "chat.abort", json!({"sessionKey": key})).await;
    assert_eq!(told["aborted"], true, "{told}");
}

#[tokio::test]
async fn a_run_that_somebody_stops_is_no_answer_and_not_to_be_asked_for_again() {
    let (gateway, _mock) = offering().await;
    let mut client = admin(&gateway).await;
    let error = json!({"error": {"message": "the run was stopped",
        "type": "invalid_request_error", "code": "run_stopped"}});
    let mut body = says("@mock stream n=400 delay=50");
    let key = "agent:main:waited";
    let request = post(&gateway, PATH, &body).header("x-openclaw-session-key", key);
    let (told, ()) = tokio::join!(request.send(), stop_what_speaks(&mut client, key));
    let told = told.unwrap();
    assert_eq!(told.status(), 400);
    assert_eq!(told.headers()["x-should-retry"], "false");
    let whole: Value = serde_json::from_str(&told.text().await.unwrap()).unwrap();
    assert_eq!(whole, error);
    body["stream"] = json!(true);
    let key = "agent:main:streamed";
    let request = post(&gateway, PATH, &body).header("x-openclaw-session-key", key);
    let ((all, is_done), ()) = tokio::join!(pieces(request), stop_what_speaks(&mut client, key));
    assert!(is_done && *all.last().unwrap() == error, "{all:?}");
}

#[tokio::test]
async fn what_is_off_is_not_there_and_what_is_unknown_is_refused() {
    let (gateway, _mock) = offering_with(|config| {
        config["gateway"]["http"]["endpoints"]["chatCompletions"]["enabled"] = json!(false);
        config["gateway"]["http"]["endpoints"]["responses"]["maxBodyBytes"] = json!(100);
    })
    .await;
    let status = post(&gateway, PATH, &says("x")).send().await.unwrap().status().as_u16();
    assert_eq!(status, 404);
    let input = |input: &str| json!({"model": "openclaw/nope", "input": input});
    let (status, whole) = answer(post(&gateway, "/v1/responses", &input("x"))).await;
    assert_eq!((status, &whole["error"]["message"]), (400, &json!("unknown agent id \"nope\"")));
    let (status, whole) = answer(post(&gateway, "/v1/responses", &input(&"x".repeat(100)))).await;
    assert_eq!((status, &whole["error"]["type"]), (413, &json!("invalid_request_error")));
}
