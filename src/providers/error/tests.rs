use super::ProviderErrorKind as Kind;
use super::*;

use crate::support::json;

#[track_caller]
fn answers(style: ErrorStyle, status: u16, body: &str, kind: Kind, message: &str) {
    let error = ProviderError::from_status(style, status, body);
    assert_eq!((error.kind, error.message.as_str()), (kind, message));
    assert_eq!(error.status, Some(status));
}

#[test]
fn an_openai_error_shows_its_message() {
    let body = r#"{"error":{"message":"bad key","type":"x"}}"#;
    answers(ErrorStyle::OpenAi, 401, body, Kind::Auth, "401 bad key");
    answers(ErrorStyle::OpenAi, 429, body, Kind::RateLimit, "429 bad key");
    answers(ErrorStyle::OpenAi, 500, r#"{"error":"oops"}"#, Kind::Server, "500 oops");
    let list = r#"[{"error":{"message":"unknown field"}}]"#;
    answers(ErrorStyle::OpenAi, 400, list, Kind::BadRequest, "400 unknown field");
}

#[test]
fn a_text_without_an_error_around_it_is_shown_and_no_overflow() {
    let mistral = r#"{"object":"error","message":"Expected last role User","code":"3230"}"#;
    answers(ErrorStyle::OpenAi, 400, mistral, Kind::BadRequest, "400 Expected last role User");
    let vllm = r#"{"object":"error","message":"maximum context length is 10 tokens"}"#;
    let text = "400 maximum context length is 10 tokens";
    answers(ErrorStyle::OpenAi, 400, vllm, Kind::ContextLength, text);
    let detail = r#"{"detail":[{"loc":["body","store"],"msg":"Extra inputs"}]}"#;
    let text = r#"422 [{"loc":["body","store"],"msg":"Extra inputs"}]"#;
    answers(ErrorStyle::OpenAi, 422, detail, Kind::BadRequest, text);
    let other = r#"{"status":"refused"}"#;
    answers(ErrorStyle::OpenAi, 400, other, Kind::BadRequest, &format!("400 {other}"));
    let bare = r#""model is not loaded""#;
    answers(ErrorStyle::OpenAi, 400, bare, Kind::BadRequest, "400 model is not loaded");
    for list in [r#"["one","two"]"#, r#"[["body","store"]]"#] {
        answers(ErrorStyle::OpenAi, 400, list, Kind::BadRequest, &format!("400 {list}"));
    }
    let long = r#"["prompt is too long: 12 tokens > 10 maximum"]"#;
    answers(ErrorStyle::OpenAi, 400, long, Kind::ContextLength, &format!("400 {long}"));
}

#[test]
fn what_the_provider_behind_openrouter_says_is_shown_and_counts() {
    let body = |raw: Value| {
        json!({"error": {"message": "Provider returned error", "code": 400,
            "metadata": {"raw": raw, "provider_name": "Behind"}}})
    };
    let raw = r#"{"error":{"message":"This model's maximum context length is 10 tokens"}}"#;
    let text = format!("Provider returned error\n{raw}");
    let told = format!("400 {text}");
    let long = body(json!(raw));
    answers(ErrorStyle::OpenAi, 400, &long.to_string(), Kind::ContextLength, &told);
    let event = ProviderError::from_event(ErrorStyle::OpenAi, &long);
    assert_eq!((event.kind, event.message), (Kind::ContextLength, text));
    let refused = body(json!({"message": "temperature is not supported"})).to_string();
    assert!(ProviderError::from_status(ErrorStyle::OpenAi, 400, &refused).refuses("temperature"));
    for silent in [json!(""), Value::Null] {
        let (body, text) = (body(silent).to_string(), "400 Provider returned error");
        answers(ErrorStyle::OpenAi, 400, &body, Kind::BadRequest, text);
    }
}

#[test]
fn the_wait_that_google_asks_for_is_in_its_error() {
    let limited = |delay: Value| {
        json!({"error": {"code": 429, "message": "busy", "status": "RESOURCE_EXHAUSTED", "details": [
            {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
        ]}})
    };
    let seconds = |seconds: f64| Some(Duration::from_secs_f64(seconds));
    for (delay, expected) in [
        (json!("38s"), seconds(38.0)),
        (json!("0.5s"), seconds(0.5)),
        (json!("999999999s"), Some(RETRY_AFTER_MAX)),
        (json!("-1s"), None),
        (json!("soon"), None),
        (json!({"seconds": 1}), None),
    ] {
        let body = limited(delay);
        let event = ProviderError::from_event(ErrorStyle::Google, &body);
        assert_eq!((event.kind, event.retry_after), (Kind::RateLimit, expected), "{body}");
        let list = json!([body]).to_string();
        for (style, body) in [(ErrorStyle::Google, body.to_string()), (ErrorStyle::OpenAi, list)] {
            let error = ProviderError::from_status(style, 429, &body);
            assert_eq!(error.retry_after, expected, "{body}");
        }
    }
}

#[test]
fn an_anthropic_error_shows_its_raw_body() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    answers(ErrorStyle::Anthropic, 529, body, Kind::Overloaded, &format!("529 {body}"));
}

#[test]
fn google_shows_the_raw_body_and_ollama_says_who_it_is() {
    let body = r#"{"error":{"code":503,"message":"busy"}}"#;
    answers(ErrorStyle::Google, 503, body, Kind::Server, body);
    answers(ErrorStyle::Google, 503, "", Kind::Server, "503 status code (no body)");
    let text = r#"Ollama API error 404: {"error":"no such model"}"#;
    answers(ErrorStyle::Ollama, 404, r#"{"error":"no such model"}"#, Kind::BadRequest, text);
}

#[test]
fn people_read_words_in_the_place_of_json() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},
        "request_id":"req_1"}"#;
    let event = serde_json::from_str(body).unwrap();
    let busy = r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#;
    let listed = format!("[{busy}]");
    let ollama = r#"{"error":"no such model"}"#;
    let details = r#"{"detail":[{"loc":["body","store"],"msg":"Extra inputs"}]}"#;
    let of = ProviderError::from_status;
    for (error, told) in [
        (of(ErrorStyle::Anthropic, 529, body), "529 Overloaded"),
        (ProviderError::from_event(ErrorStyle::Anthropic, &event), "Overloaded"),
        (of(ErrorStyle::Google, 503, busy), "503 busy"),
        (of(ErrorStyle::Google, 503, &listed), "503 busy"),
        (of(ErrorStyle::Anthropic, 503, busy), "503 busy"),
        (of(ErrorStyle::Ollama, 404, ollama), "Ollama API error 404: no such model"),
        (of(ErrorStyle::OpenAi, 401, r#"{"error":{"message":"bad"}}"#), "401 bad"),
        (of(ErrorStyle::Google, 400, details), details),
        (of(ErrorStyle::Google, 400, r#"{"error":{"message":""}}"#), r#"{"error":{"message":""}}"#),
    ] {
        assert_eq!(text_for_people(&error.message, error.wire_kind()), told, "{error:?}");
    }
    let all =
        format!("All models failed (2): a/b: 529 {body} (overloaded) | c/d: {busy} (timeout)");
    let told = "All models failed (2): a/b: 529 Overloaded (overloaded) | c/d: 503 busy (timeout)";
    assert_eq!(text_for_people(&all, "unknown"), told);
    let long = format!("{}{busy}", "[".repeat(WORDS_MAX));
    for text in ["a {brace} and a [1, 2", "", "[1, {\"a\": []}] ü{", long.as_str()] {
        assert_eq!(text_for_people(text, "unknown"), text);
    }
}

#[test]
fn a_key_that_google_refuses_is_no_wrong_request() {
    let body = r#"{"error":{"code":400,"message":"API key expired. Please renew the API key.",
        "status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#;
    answers(ErrorStyle::Google, 400, body, Kind::Auth, body);
    let list = r#"[{"error":{"message":"API key not valid. Please pass a valid API key."}}]"#;
    let text = "400 API key not valid. Please pass a valid API key.";
    answers(ErrorStyle::OpenAi, 400, list, Kind::Auth, text);
}

#[test]
fn a_body_that_is_not_json_is_shown_and_a_missing_one_is_said() {
    answers(ErrorStyle::OpenAi, 502, "Bad Gateway\n", Kind::Server, "502 Bad Gateway");
    answers(ErrorStyle::OpenAi, 503, "", Kind::Server, "503 status code (no body)");
    for nothing in ["{}", "[]", "\"\"", "null"] {
        let text = "400 status code (no body)";
        answers(ErrorStyle::OpenAi, 400, nothing, Kind::ContextLength, text);
    }
}

#[test]
fn too_long_a_conversation_is_recognised_by_its_text() {
    let body = r#"{"error":{"message":"maximum context length is 10 tokens"}}"#;
    let message = "400 maximum context length is 10 tokens";
    answers(ErrorStyle::OpenAi, 400, body, Kind::ContextLength, message);
    let limited = r#"{"error":{"message":"too many tokens per minute"}}"#;
    let message = "429 too many tokens per minute";
    answers(ErrorStyle::OpenAi, 429, limited, Kind::RateLimit, message);
}

#[test]
fn an_error_event_is_judged_by_its_type() {
    let event = |style, data| {
        let error = ProviderError::from_event(style, &data);
        (error.kind, error.message)
    };
    let data = json!({"type": "error", "error": {"type": "overloaded_error", "message": "m"}});
    let text = data.to_string();
    assert_eq!(event(ErrorStyle::Anthropic, data), (Kind::Overloaded, text));
    let data = json!({"error": {"message": "slow down", "code": 429}});
    assert_eq!(event(ErrorStyle::OpenAi, data), (Kind::RateLimit, "slow down".into()));
    // As vLLM, LiteLLM, Azure and OpenAI write them.
    for (kind, error) in [
        (Kind::BadRequest, json!({"type": "None", "code": "400"})),
        (Kind::BadRequest, json!({"type": "BadRequestError", "code": 400})),
        (Kind::RateLimit, json!({"type": null, "code": 429})),
        (Kind::Refusal, json!({"type": null, "code": "content_filter"})),
        (Kind::RateLimit, json!({"type": "tokens", "code": "rate_limit_exceeded"})),
        (Kind::Server, json!({"type": "server_error", "code": null})),
    ] {
        assert_eq!(event(ErrorStyle::OpenAi, json!({"error": error})).0, kind, "{error}");
    }
    let data = json!({"error": {"message": "boom"}});
    assert_eq!(event(ErrorStyle::OpenAi, data), (Kind::Server, "boom".into()));
}

#[test]
fn what_may_pass_is_retried_and_what_stays_is_not() {
    let status = |status| ProviderError::from_status(ErrorStyle::OpenAi, status, "x");
    for code in [408, 409, 429, 500, 502, 503, 529] {
        assert!(status(code).is_retryable(), "{code}");
    }
    for code in [400, 401, 403, 404, 422] {
        assert!(!status(code).is_retryable(), "{code}");
    }
    assert!(ProviderError::new(Kind::Network, "x").is_retryable());
    assert!(ProviderError::cut().is_retryable());
    assert!(!ProviderError::timed_out(Duration::from_secs(1)).is_retryable());
    let overflow = ProviderError::from_status(ErrorStyle::OpenAi, 500, "prompt is too long");
    assert!(!overflow.is_retryable());
}

#[test]
fn pictures_are_refused_in_words_or_by_size() {
    let refuses = |status, message: &str| {
        let body = json!({"error": {"message": message}}).to_string();
        ProviderError::from_status(ErrorStyle::Anthropic, status, &body).refuses_pictures()
    };
    assert!(refuses(400, "image dimensions exceed max allowed size: 8000 pixels"));
    assert!(refuses(400, "Image does not match the provided media type"));
    assert!(refuses(413, "Request exceeds the maximum size"));
    assert!(refuses(400, "Request payload size exceeds the limit: 20971520 bytes."));
    assert!(!refuses(400, "unknown field") && !refuses(429, "too many images"));
}

#[test]
fn thoughts_are_refused_in_words() {
    let refuses = |status, message: &str| {
        let body = json!({"error": {"message": message}}).to_string();
        ProviderError::from_status(ErrorStyle::Anthropic, status, &body).refuses_thoughts()
    };
    let text = "messages.1.content.0: Invalid `signature` in `thinking` block";
    assert!(refuses(400, text) && !refuses(429, text));
    for text in [
        "`thinking` blocks in the latest assistant message cannot be modified",
        "Corrupted thought signature.",
        "The encrypted content gAAA...w== could not be verified.",
        "reasoning `encrypted_content` was not issued to this caller",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item",
    ] {
        assert!(refuses(400, text), "{text}");
    }
    assert!(!refuses(400, "\"thinking.type.disabled\" is not supported for this model."));
    assert!(!refuses(400, "Encrypted content is not supported with this model."));
}

#[test]
fn what_a_model_refuses_is_known_by_what_providers_say() {
    let refuses = |message: &str, member: &str| {
        let body = json!({"error": {"message": message}}).to_string();
        ProviderError::from_status(ErrorStyle::OpenAi, 400, &body).refuses(member)
    };
    for (member, message) in [
        ("tools", "one does not support tools"),
        ("think", "\"one\" does not support thinking"),
        ("temperature", "`temperature` is deprecated for this model."),
        ("temperature", "invalid temperature: only 1 is allowed for this model"),
        ("reasoning", "Unsupported value: 'minimal' is not supported with the 'm' model."),
        ("reasoning_effort", "reasoning_effort='low' is not supported for this model"),
        (
            "reasoning.summary",
            "Your organization must be verified to generate reasoning summaries.",
        ),
        ("include", "Encrypted content is not supported with this model."),
        ("include", "Unsupported parameter: 'reasoning.effort' is not supported with this model."),
        ("tool_choice", "one does not support tools"),
        ("generationConfig.thinkingConfig", "Thinking is not enabled for models/one"),
        ("generationConfig.thinkingConfig", "The thinking budget (52428) is invalid."),
        ("thinking", "\"thinking.type.enabled\" is not supported for this model."),
        ("thinking", "Thinking may not be enabled when tool_choice forces tool use."),
        (
            "thinking",
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
             `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a \
             thinking block",
        ),
        ("output_config", "This model does not support the effort parameter."),
        ("output_config", "output_config: Extra inputs are not permitted"),
    ] {
        assert!(refuses(message, member), "{message}");
        assert!(!refuses("bad request", member), "{member}");
    }
    // What it has thought is refused, not that it thinks.
    assert!(!refuses("Invalid `signature` in `thinking` block", "thinking"));
    // It thinks, so it has thoughts to give back.
    assert!(!refuses("Unsupported value: 'minimal' is not supported with this model.", "include"));
}

#[test]
fn the_wire_knows_five_kinds() {
    let wire = |kind| ProviderError::new(kind, "").wire_kind();
    assert_eq!(wire(Kind::Refusal), "refusal");
    assert_eq!(wire(Kind::Timeout), "timeout");
    assert_eq!(wire(Kind::RateLimit), "rate_limit");
    assert_eq!(wire(Kind::ContextLength), "context_length");
    assert_eq!(wire(Kind::Auth), "unknown");
}
