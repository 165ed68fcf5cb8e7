//! A real server of models: llama.cpp with a tiny model of random weights,
//! which speaks three of our APIs in its own way. What a mock cannot show: the
//! order and pace of a server that really computes, and what it refuses.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{
    admin, ask, call, deltas, end_of, ends_of, events, history, start, text_of, until,
};
use crate::support::{Gateway, GatewayOptions, default_config, get_json, python};

/// What `llama_server.py` builds its models for.
const CONTEXT: u64 = 32_768;
/// Name in the configuration, what follows the host, and what it calls an
/// answer that was cut at `maxTokens`: its Responses API says `completed`.
const APIS: [(&str, &str, &str); 3] = [
    ("openai-completions", "/v1", "length"),
    ("openai-responses", "/v1", "stop"),
    ("anthropic-messages", "", "length"),
];

/// The running server; it is ended when this is dropped.
struct LlamaServer {
    child: Child,
    url: String,
    _folder: TempDir,
}

impl LlamaServer {
    /// Starts it with a model whose answers end by themselves, or never.
    fn start(mode: &str) -> Self {
        let folder = TempDir::with_prefix("clawgate-llama-").unwrap();
        let mut child = Command::new(python::interpreter())
            .arg(python::script("llama_server.py"))
            .arg(folder.path())
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.strip_prefix("listening on ")?.to_owned()));
        let url = url.expect("llama.cpp says where it listens");
        // Its pipe must not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url, _folder: folder }
    }

    /// A gateway that asks it by this API.
    async fn gateway(&self, api: &str, base: &str, max_tokens: u64, context: u64) -> Gateway {
        let mut config = default_config("127.0.0.1:9");
        config["agents"]["defaults"]["model"]["primary"] = json!("local/tiny");
        config["models"]["providers"] = json!({ "local": {
            "baseUrl": format!("{}{base}", self.url), "apiKey": "none", "api": api,
            "models": [{
                "id": "tiny", "name": "Tiny", "contextWindow": context, "maxTokens": max_tokens,
            }],
        }});
        Gateway::start(GatewayOptions::with_config(config)).await
    }

    /// Waits until it computes nothing; how many tokens its last call came to.
    async fn idle(&self) -> u64 {
        let address = self.url.trim_start_matches("http://");
        let probe = async || {
            let slots = get_json(address, "/slots").await;
            let is_idle = slots[0]["is_processing"] == false;
            is_idle.then(|| number(&slots[0], "n_prompt_tokens"))
        };
        until("the end of llama.cpp's work", probe).await
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no {name} in {value}"))
}

#[tokio::test]
async fn llama_cpp_streams_answers_with_usage_by_each_api_it_speaks() {
    let server = LlamaServer::start("ends");
    for (api, base, _) in APIS {
        let gateway = server.gateway(api, base, 8192, CONTEXT).await;
        let mut client = admin(&gateway).await;
        // The tools of the agent are offered with each, and the second brings the first answer
        // back. Words of chance may be none: it is asked until it has said some.
        let (mut turns, mut has_spoken) = (0, false);
        while turns < 2 || !has_spoken {
            turns += 1;
            assert!(turns < 20, "{api}");
            let run = &*format!("run-{turns}");
            let end = ask(&mut client, "main", "Where was the boat? 🦀", run).await;
            assert_eq!(
                (&end["state"], &end["stopReason"]),
                (&json!("final"), &json!("stop")),
                "{api}"
            );
            assert!(
                number(&end["usage"], "input") + number(&end["usage"], "cacheRead") > 100,
                "{api}"
            );
            assert!(number(&end["usage"], "output") > 0, "{api}");
            let said = events(&client, "agent", run);
            let said = said.iter().rfind(|event| event["stream"] == "assistant");
            let said = said.map_or("", |event| event["data"]["text"].as_str().unwrap());
            assert_eq!(said, text_of(&end["message"]), "{api}");
            has_spoken |= !said.is_empty();
        }
        let messages = history(&mut client, "main").await;
        let roles: Vec<_> =
            messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant"].repeat(turns), "{api}");
    }
}

#[tokio::test]
async fn llama_cpp_stops_at_max_tokens_and_when_it_is_told_to_by_each_api_it_speaks() {
    let server = LlamaServer::start("endless");
    for (api, base, cut) in APIS {
        let gateway = server.gateway(api, base, 40, CONTEXT).await;
        let mut client = admin(&gateway).await;
        let end = ask(&mut client, "main", "Tell me a tale.", "run-1").await;
        assert_eq!((&end["state"], &end["stopReason"]), (&json!("final"), &json!(cut)), "{api}");
        assert_eq!(number(&end["usage"], "output"), 40, "{api}: {end}");
        assert!(text_of(&end["message"]).chars().all(|c| c != '\u{FFFD}'), "{api}: {end}");

        let gateway = server.gateway(api, base, CONTEXT, CONTEXT).await;
        let mut client = admin(&gateway).await;
        start(&mut client, "main", "Tell me a long tale.", "run-2").await;
        let so_far = deltas(&client, "run-2", 2).await;
        let stopped = call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
        assert_eq!(stopped["runIds"], json!(["run-2"]), "{api}");
        let end = end_of(&client, "run-2").await;
        assert_eq!(end["state"], "aborted", "{api}: {end}");
        assert_eq!(ends_of(&client, "run-2").len(), 1, "{api}");
        let kept = text_of(history(&mut client, "main").await.last().unwrap());
        assert!(kept.starts_with(&so_far), "{api}: {kept}");
        let computed = server.idle().await;
        assert!(computed < CONTEXT - 1000, "{api}: it went on to {computed} tokens");
    }
}

#[tokio::test]
async fn what_is_too_long_for_llama_cpp_is_told_as_that_by_each_api_it_speaks() {
    let server = LlamaServer::start("ends");
    for (api, base, _) in APIS {
        let gateway = server.gateway(api, base, 100, 200_000).await;
        let mut client = admin(&gateway).await;
        let long = "too long ".repeat(CONTEXT as usize / 8);
        let end = ask(&mut client, "main", &long, "run-1").await;
        assert_eq!(end["state"], "error", "{api}: {end}");
        assert_eq!(end["errorKind"], "context_length", "{api}: {end}");
        let told = end["errorMessage"].as_str().unwrap();
        assert!(told.starts_with("Context overflow: prompt too large"), "{api}: {told}");
        let text = end["error"]["message"].as_str().unwrap();
        assert!(text.contains("(32768 tokens)"), "{api}: {text}");
    }
}
