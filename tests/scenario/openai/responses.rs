//! `POST /v1/responses`.

use axum::routing::get;
use serde_json::{Value, json};

use super::chat::stop_what_speaks;
use super::{answer, offering, offering_with, pieces, post};
use crate::stage::{admin, serve, start};
use crate::support::client::SOON;
use crate::support::{Gateway, MockProvider};

const PATH: &str = "/v1/responses";

#[tokio::test]
async fn a_response_goes_on_where_another_one_ended() {
    let (gateway, mock) = offering().await;
    let first = json!({"model": "openclaw", "input": "@mock text text=\"one\""});
    let (status, first) = answer(post(&gateway, PATH, &first)).await;
    assert_eq!((status, &first["status"]), (200, &json!("completed")), "{first}");
    let next = json!({"model": "openclaw", "input": "@mock text text=\"two\"",
        "instructions": "Be brief today.", "previous_response_id": first["id"]});
    let (_, second) = answer(post(&gateway, PATH, &next)).await;
    assert_eq!(second["output"][0]["content"][0]["text"], "two");
    let messages = mock.requests()[1].body["messages"].to_string();
    assert!(messages.contains("one") && messages.contains("Be brief today."), "{messages}");

    let mut other = next.clone();
    other["previous_response_id"] = json!("resp_of-nobody");
    let (status, refused) = answer(post(&gateway, PATH, &other)).await;
    assert_eq!(status, 400);
    let message = refused["error"]["message"].as_str().unwrap();
    let told = "Previous response with id 'resp_of-nobody' not found. Responses are known for 24";
    assert!(message.starts_with(told) && message.contains("`input`"), "{refused}");
    // By these programs tell it from other refusals, as with OpenAI itself.
    assert_eq!(refused["error"]["code"], "previous_response_not_found", "{refused}");
    assert_eq!(refused["error"]["param"], "previous_response_id", "{refused}");
    assert_eq!(refused["error"]["type"], "invalid_request_error", "{refused}");
}

#[tokio::test]
async fn a_clients_function_is_called_and_answered() {
    let (gateway, mock) = offering().await;
    let tools = json!([{"type": "function", "name": "add", "parameters": {"type": "object"}}]);
    let asked = json!({"model": "openclaw", "tools": tools, "stream": true,
        "input": "@mock tool name=add args={\"a\":1} then=\"never\""});
    let (all, is_done) = pieces(post(&gateway, PATH, &asked)).await;
    let kinds: Vec<_> = all.iter().map(|piece| piece["type"].as_str().unwrap()).collect();
    assert!(is_done);
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let whole = &all.last().unwrap()["response"];
    let made = &whole["output"][1];
    assert_eq!((&whole["status"], &made["name"]), (&json!("completed"), &json!("add")));

    let result = json!({"model": "openclaw", "previous_response_id": whole["id"], "input": [
        {"type": "function_call_output", "call_id": made["call_id"],
            "output": "3 @mock text text=\"three\""}]});
    let (_, told) = answer(post(&gateway, PATH, &result)).await;
    assert_eq!(told["output"][0]["content"][0]["text"], "three", "{told}");
    assert_eq!(mock.requests().len(), 2);
}

#[tokio::test]
async fn a_tools_result_and_what_the_user_says_to_it_are_heard_together() {
    let (gateway, mock) = offering().await;
    let tools = json!([{"type": "function", "name": "add", "parameters": {"type": "object"}}]);
    let asked = json!({"model": "openclaw", "tools": tools,
        "input": "@mock tool name=add args={\"a\":1} then=\"never\""});
    let (_, first) = answer(post(&gateway, PATH, &asked)).await;
    assert_eq!(first["status"], "completed", "{first}");
    let output = first["output"].as_array().unwrap();
    let call = output.iter().find(|item| item["type"] == "function_call").unwrap();
    let next = json!({"model": "openclaw", "previous_response_id": first["id"], "input": [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "the sum is 3"},
        {"role": "user", "content": "@mock text text=\"heard\""}]});
    let (_, told) = answer(post(&gateway, PATH, &next)).await;
    assert_eq!(told["output"][0]["content"][0]["text"], "heard", "{told}");
    let message = last_message(&mock);
    assert!(message.contains("the sum is 3") && message.contains("heard"), "{message}");
}

#[tokio::test]
async fn several_messages_of_the_user_are_heard_together() {
    let (gateway, mock) = offering().await;
    let asked = json!({"model": "openclaw", "input": "@mock text text=\"one\""});
    let (_, first) = answer(post(&gateway, PATH, &asked)).await;
    let mut next = json!({"model": "openclaw", "previous_response_id": first["id"], "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "the document of the trip"},
            {"type": "input_file", "filename": "notes.txt",
                "file_data": "data:text/plain;base64,dGhlIG5vdGVz"}]},
        {"role": "user", "content": "@mock text text=\"summed up\""}]});
    for previous in [first["id"].clone(), Value::Null] {
        next["previous_response_id"] = previous;
        let (_, told) = answer(post(&gateway, PATH, &next)).await;
        assert_eq!(told["output"][0]["content"][0]["text"], "summed up", "{told}");
        let message = last_message(&mock);
        assert!(message.contains("the document of the trip"), "{message}");
        assert!(message.contains("the notes"), "{message}");
    }
}

/// The text of the first item of a response.
fn said(response: &Value) -> &Value {
    &response["output"][0]["content"][0]["text"]
}

#[tokio::test]
async fn items_that_are_only_named_are_what_their_responses_have_said() {
    let (mut gateway, mock) = offering().await;
    let asked = json!({"model": "openclaw", "input": "@mock text text=\"The word is PURPLE\""});
    let (_, first) = answer(post(&gateway, PATH, &asked)).await;
    let tools = json!([{"type": "function", "name": "add", "parameters": {"type": "object"}}]);
    let asked = json!({"model": "openclaw", "tools": tools,
        "input": "@mock tool name=add args={\"a\":1} pre=\"I add.\" then=\"never\""});
    let (_, second) = answer(post(&gateway, PATH, &asked)).await;
    let [message, call] = &second["output"].as_array().unwrap()[..] else { panic!("{second}") };
    let prints = json!({"command": "echo MEDIA:plot.png"});
    let then = json!("Here is the plan.\nMEDIA:plan.txt");
    let names_files = format!("@mock tool name=exec args={prints} then={then}");
    let asked = json!({"model": "openclaw", "input": names_files});
    let (_, third) = answer(post(&gateway, PATH, &asked)).await;
    let body = json!({"model": "openclaw", "input": [
        {"role": "user", "content": "the first question"},
        {"type": "item_reference", "id": "rs_of-another-model"},
        {"type": "item_reference", "id": first["output"][0]["id"]},
        {"type": "item_reference", "id": third["output"][0]["id"]},
        {"role": "user", "content": "the second question"},
        {"type": "item_reference", "id": message["id"]},
        {"type": "item_reference", "id": call["id"]},
        {"type": "function_call_output", "call_id": call["call_id"], "output": "3"},
        {"role": "user", "content": "@mock text text=\"fine\""}]});
    for is_restarted in [false, true] {
        if is_restarted {
            gateway.restart().await;
        }
        let (status, told) = answer(post(&gateway, PATH, &body)).await;
        assert_eq!((status, said(&told)), (200, &json!("fine")), "{told}");
        let heard = last_message(&mock);
        let (earlier, new) = heard.split_once("[What is to be answered now]").unwrap();
        for part in [
            "User: the first question",
            "Assistant: The word is PURPLE",
            "User: the second question",
            "Assistant: I add.",
            "Assistant: [called the tool add (",
            "Assistant: Here is the plan.",
            // As JSON has the end of a line.
            r"File: plot.png\nFile: plan.txt",
        ] {
            assert!(earlier.contains(part), "{part}: {heard}");
        }
        assert!(!heard.contains("MEDIA:"), "{heard}");
        assert!(new.contains("Result of the tool add (") && !new.contains("question"), "{heard}");
    }
}

/// What the model hears of a response whose item is named, at once and after a restart.
async fn heard_of_item(gateway: &mut Gateway, mock: &MockProvider, first: &Value) -> [String; 2] {
    let body = json!({"model": "openclaw", "input": [
        {"role": "user", "content": "the first question"},
        {"type": "item_reference", "id": first["output"][0]["id"]},
        {"role": "user", "content": "@mock text text=\"fine\""}]});
    let (_, told) = answer(post(gateway, PATH, &body)).await;
    assert_eq!(said(&told), "fine", "{told}");
    let heard = last_message(mock);
    gateway.restart().await;
    let (_, told) = answer(post(gateway, PATH, &body)).await;
    assert_eq!(said(&told), "fine", "{told}");
    [heard, last_message(mock)]
}

#[tokio::test]
async fn a_named_item_is_all_of_its_answer_also_after_a_message_that_went_into_its_run() {
    let (mut gateway, mock) = offering().await;
    let mut client = admin(&gateway).await;
    let key = "agent:main:steered";
    let asked = json!({"model": "openclaw", "input": "@mock stream n=12 delay=40"});
    let request = post(&gateway, PATH, &asked).header("x-openclaw-session-key", key);
    let steered = async {
        let speaks = client.wait_for(SOON, |frame| {
            let payload = &frame["payload"];
            frame["event"] == "chat" && payload["sessionKey"] == key && payload["state"] == "delta"
        });
        speaks.await.expect("a word");
        start(&mut client, key, "@mock text text=afterwards", "steers").await;
    };
    let ((_, first), ()) = tokio::join!(answer(request), steered);
    let whole = said(&first).as_str().unwrap().to_owned();
    assert!(whole.starts_with("w1 ") && whole.ends_with("\n\nafterwards"), "{first}");
    // What the session says later is no part of it.
    let later = json!({"model": "openclaw", "input": "@mock text text=\"later on\""});
    let later = post(&gateway, PATH, &later).header("x-openclaw-session-key", key);
    assert_eq!(answer(later).await.0, 200);
    // As JSON has the end of a line.
    let part = whole.replace('\n', "\\n");
    for heard in heard_of_item(&mut gateway, &mock, &first).await {
        assert!(heard.contains(&part) && !heard.contains("later on"), "{part}: {heard}");
    }
}

#[tokio::test]
async fn a_named_item_that_is_json_stays_json() {
    let (mut gateway, mock) = offering().await;
    let then = json!("{\"fit\": true}\nMEDIA:plot.png");
    let asked = json!({"model": "openclaw",
        "input": format!("@mock text text={then}"), "text": {"format": {"type": "json_object"}}});
    let (_, first) = answer(post(&gateway, PATH, &asked)).await;
    assert_eq!(said(&first), "{\"fit\": true}", "{first}");
    for heard in heard_of_item(&mut gateway, &mock, &first).await {
        assert!(heard.contains("fit") && !heard.contains("plot.png"), "{heard}");
    }
}

#[tokio::test]
async fn an_item_that_nobody_keeps_is_refused_by_its_place() {
    let (gateway, mock) = offering().await;
    let asked = json!({"model": "openclaw", "input": "@mock text text=\"one\""});
    let (_, first) = answer(post(&gateway, PATH, &asked)).await;
    let response = first["id"].as_str().unwrap().strip_prefix("resp_").unwrap();
    let not_made = format!("fc_{response}_1");
    for id in ["msg_of-nobody", "fc_of-nobody_1", "x", not_made.as_str()] {
        let body = json!({"model": "openclaw", "input": [{"role": "user", "content": "x"},
            {"type": "item_reference", "id": id}, {"role": "user", "content": "y"}]});
        let (status, told) = answer(post(&gateway, PATH, &body)).await;
        let text = "input.1: no item is kept for this id; send it whole, as clients do with `store: false`";
        assert_eq!((status, &told["error"]["message"]), (400, &json!(text)), "{id}");
    }
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn an_item_that_nobody_keeps_is_passed_over_in_a_session_that_exists() {
    let (gateway, mock) = offering().await;
    let with_items = json!({"model": "openclaw", "user": "kim", "input": [
        {"role": "user", "content": "the first question"},
        {"type": "item_reference", "id": "msg_of-nobody"},
        {"role": "user", "content": "the second question"},
        {"type": "item_reference", "id": "fc_of-nobody_1"},
        {"type": "function_call_output", "call_id": "1", "output": "3"},
        {"role": "user", "content": "@mock text text=\"fine\""}]});
    let (status, told) = answer(post(&gateway, PATH, &with_items)).await;
    let message = told["error"]["message"].as_str().unwrap_or_default();
    assert!(status == 400 && message.starts_with("input.1: no item is kept"), "{told}");
    assert!(mock.requests().is_empty());

    let begun = json!({"model": "openclaw", "user": "kim", "input": "@mock text text=\"one\""});
    assert_eq!(answer(post(&gateway, PATH, &begun)).await.0, 200);
    let (status, told) = answer(post(&gateway, PATH, &with_items)).await;
    assert_eq!((status, said(&told)), (200, &json!("fine")), "{told}");
    let heard = last_message(&mock);
    assert!(heard.contains("Result of the tool of this call (1): 3"), "{heard}");
    assert!(!heard.contains("question") && !heard.contains("not kept"), "{heard}");
}

#[tokio::test]
async fn each_event_of_a_stream_has_its_number() {
    let (gateway, _mock) = offering().await;
    for text in ["@mock stream n=5 delay=5", "@mock err status=400 after=3"] {
        let asked = json!({"model": "openclaw", "input": text, "stream": true});
        let (all, is_done) = pieces(post(&gateway, PATH, &asked)).await;
        let numbers: Vec<_> = all.iter().map(|piece| piece["sequence_number"].as_u64()).collect();
        let expected: Vec<Option<u64>> = (0..).map(Some).take(all.len()).collect();
        assert!(is_done && numbers == expected, "{all:?}");
    }
}

#[tokio::test]
async fn what_is_said_around_a_tool_of_the_agent_is_two_paragraphs_but_in_a_stream_of_chat() {
    let (gateway, _mock) = offering().await;
    let text = "@mock tool name=session_status args={} pre=\"I look.\" then=\"Done now.\"";
    let chat = "/v1/chat/completions";
    let mut asked = json!({"model": "openclaw", "input": text,
        "messages": [{"role": "user", "content": text}]});
    let whole = json!("I look.\n\nDone now.");
    let (_, told) = answer(post(&gateway, PATH, &asked)).await;
    assert_eq!(*said(&told), whole, "{told}");
    let (_, told) = answer(post(&gateway, chat, &asked)).await;
    assert_eq!(told["choices"][0]["message"]["content"], whole, "{told}");

    asked["stream"] = json!(true);
    let (all, _) = pieces(post(&gateway, PATH, &asked)).await;
    let deltas = all.iter().filter_map(|piece| piece["delta"].as_str());
    assert_eq!(json!(deltas.collect::<String>()), whole, "{all:?}");
    let done = all.iter().find(|piece| piece["type"] == "response.output_text.done").unwrap();
    assert_eq!(done["text"], whole, "{all:?}");
    assert_eq!(*said(&all.last().unwrap()["response"]), whole, "{all:?}");
    // As recorded.
    let (all, _) = pieces(post(&gateway, chat, &asked)).await;
    let deltas = all.iter().filter_map(|piece| piece["choices"][0]["delta"]["content"].as_str());
    assert_eq!(deltas.collect::<String>(), "I look.Done now.", "{all:?}");
}

/// What the model was asked with last.
fn last_message(mock: &MockProvider) -> String {
    let requests = mock.requests();
    let messages = requests.last().unwrap().body["messages"].as_array().unwrap();
    messages.last().unwrap().to_string()
}

#[tokio::test]
async fn a_file_is_read_to_the_model_as_somebody_elses_words() {
    let (gateway, mock) = offering().await;
    let asked = json!({"model": "openclaw", "input": [{"role": "user", "content": [
        {"type": "input_text", "text": "@mock text text=\"read\""},
        {"type": "input_file", "filename": "notes.txt",
            "file_data": "data:text/plain;base64,dGhlIG5vdGVz"}]}]});
    let (status, told) = answer(post(&gateway, PATH, &asked)).await;
    assert_eq!((status, &told["output"][0]["content"][0]["text"]), (200, &json!("read")));
    let messages = mock.requests()[0].body["messages"].to_string();
    assert!(messages.contains("EXTERNAL_UNTRUSTED_CONTENT"), "{messages}");
    assert!(messages.contains("the notes"), "{messages}");
}

#[tokio::test]
async fn a_file_may_be_an_address_under_the_rules_of_web_fetch_and_no_id() {
    let pages = axum::Router::new().route("/notes.txt", get(async || "the notes of the web"));
    let (port, _server) = serve(pages).await;
    let asks = |file: Value| {
        json!({"model": "openclaw", "input": [{"role": "user", "content": [
            {"type": "input_text", "text": "@mock text text=\"read\""}, file]}]})
    };
    let url = format!("http://127.0.0.1:{port}/notes.txt");
    let by_url = asks(json!({"type": "input_file", "file_url": url}));
    let wrong = async |gateway: &Gateway, body: &Value| {
        let (status, told) = answer(post(gateway, PATH, body)).await;
        assert_eq!(status, 400, "{told}");
        told["error"]["message"].as_str().unwrap().to_owned()
    };

    let (gateway, mock) = offering_with(|config| {
        config["tools"]["web"]["fetch"]["ssrfPolicy"] = json!({"allowedHostnames": ["127.0.0.1"]});
    })
    .await;
    let (status, told) = answer(post(&gateway, PATH, &by_url)).await;
    assert_eq!((status, &told["output"][0]["content"][0]["text"]), (200, &json!("read")));
    let messages = mock.requests()[0].body["messages"].to_string();
    assert!(messages.contains("EXTERNAL_UNTRUSTED_CONTENT"), "{messages}");
    assert!(messages.contains("the notes of the web"), "{messages}");
    let as_the_original = asks(json!({"type": "input_file",
        "source": {"type": "url", "url": url, "filename": "n.txt"}}));
    assert_eq!(answer(post(&gateway, PATH, &as_the_original)).await.0, 200);
    let text = wrong(&gateway, &asks(json!({"type": "input_file", "file_id": "file-1"}))).await;
    assert!(text.starts_with("input.0.content.1.file_id: "), "{text}");

    let (gateway, _mock) = offering().await;
    let text = wrong(&gateway, &by_url).await;
    assert_eq!(text, "input.0.content.1.file_url: the file cannot be fetched");
    let (gateway, _mock) = offering_with(|config| {
        config["gateway"]["http"]["endpoints"]["responses"]["files"] = json!({"allowUrl": false});
    })
    .await;
    let text = wrong(&gateway, &by_url).await;
    assert!(text.ends_with("no file is fetched here; send its data"), "{text}");
}

#[tokio::test]
async fn a_response_that_is_cut_short_is_incomplete() {
    let (gateway, _mock) = offering().await;
    let mut asked = json!({"model": "openclaw", "input": "@mock stream n=8 delay=1",
        "max_output_tokens": 3});
    let (status, told) = answer(post(&gateway, PATH, &asked)).await;
    assert_eq!((status, &told["status"]), (200, &json!("incomplete")), "{told}");
    assert_eq!(told["incomplete_details"], json!({"reason": "max_output_tokens"}));
    asked["stream"] = json!(true);
    let (all, _) = pieces(post(&gateway, PATH, &asked)).await;
    assert_eq!(all.last().unwrap()["type"], "response.incomplete", "{all:?}");
}

#[tokio::test]
async fn a_response_that_fails_says_so() {
    let (gateway, _mock) = offering().await;
    let mut asked = json!({"model": "openclaw", "input": "@mock err status=400"});
    let (status, told) = answer(post(&gateway, PATH, &asked)).await;
    assert_eq!((status, &told["status"]), (500, &json!("failed")));
    assert_eq!(told["error"], json!({"code": "api_error", "message": "internal error"}));
    asked["stream"] = json!(true);
    let (all, is_done) = pieces(post(&gateway, PATH, &asked)).await;
    assert!(is_done && all.last().unwrap()["type"] == "response.failed", "{all:?}");
}

#[tokio::test]
async fn a_response_whose_model_fails_in_the_middle_ends_what_it_has_begun() {
    let (gateway, _mock) = offering().await;
    let mut asked = json!({"model": "openclaw", "input": "@mock err status=400 after=3"});
    let (status, told) = answer(post(&gateway, PATH, &asked)).await;
    assert_eq!((status, &told["status"]), (500, &json!("failed")), "{told}");
    let said = &told["output"][0];
    assert_eq!(said["status"], "incomplete", "{told}");
    assert!(said["content"][0]["text"].as_str().unwrap().starts_with("w1"), "{told}");

    asked["stream"] = json!(true);
    let (all, is_done) = pieces(post(&gateway, PATH, &asked)).await;
    let deltas = all.iter().filter(|piece| piece["type"] == "response.output_text.delta");
    let text: String = deltas.map(|piece| piece["delta"].as_str().unwrap()).collect();
    assert!(is_done && text.starts_with("w1"), "{all:?}");
    let [.., text_done, part_done, item_done, failed] = &all[..] else { panic!("{all:?}") };
    assert_eq!(
        [text_done, part_done, item_done, failed].map(|piece| &piece["type"]),
        [
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.failed",
        ]
    );
    let text = json!(text);
    assert_eq!((&text_done["text"], &part_done["part"]["text"]), (&text, &text));
    let item = &item_done["item"];
    assert_eq!((&item["status"], &item["content"][0]["text"]), (&json!("incomplete"), &text));
    assert_eq!(failed["response"]["output"], json!([item]));
}

#[tokio::test]
async fn a_response_that_somebody_stops_has_failed_with_what_was_said_until_then() {
    let (gateway, _mock) = offering().await;
    let mut client = admin(&gateway).await;
    let mut asked = json!({"model": "openclaw", "input": "@mock stream n=400 delay=50"});
    let is_stopped = |told: &Value| {
        assert_eq!(told["status"], "failed", "{told}");
        let error = json!({"code": "run_stopped", "message": "the run was stopped"});
        assert_eq!(told["error"], error);
        let said = &told["output"][0];
        assert_eq!((&said["type"], &said["status"]), (&json!("message"), &json!("incomplete")));
        assert_ne!(said["content"][0]["text"], "");
    };
    let key = "agent:main:waited";
    let request = post(&gateway, PATH, &asked).header("x-openclaw-session-key", key);
    let ((status, told), ()) = tokio::join!(answer(request), stop_what_speaks(&mut client, key));
    assert_eq!(status, 400, "{told}");
    is_stopped(&told);
    asked["stream"] = json!(true);
    let key = "agent:main:streamed";
    let request = post(&gateway, PATH, &asked).header("x-openclaw-session-key", key);
    let ((all, is_done), ()) = tokio::join!(pieces(request), stop_what_speaks(&mut client, key));
    let last = all.last().unwrap();
    assert!(is_done && last["type"] == "response.failed", "{all:?}");
    is_stopped(&last["response"]);
}
