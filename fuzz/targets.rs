//! What is tried, and what is promised of it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use clawgate::agent::approvals::{analysis_of, plain_words};
use clawgate::auth::pairing::{Minter, Pairing};
use clawgate::auth::{Auth, DeviceIdentity, Peer};
use clawgate::config::edit::{self, ValuePath};
use clawgate::config::redact::{redacted, restored};
use clawgate::config::{self, Env, Overrides, ResetSettings};
use clawgate::cron::schedule::{Timing, parse_at};
use clawgate::protocol::connect::{Connect, parse_connect};
use clawgate::protocol::decode::{self, Params, Unknown};
use clawgate::protocol::methods;
use clawgate::protocol::methods::cron::Schedule;
use clawgate::protocol::{ErrorShape, FrameError, Profile, Version, parse_binary, response_err};
use clawgate::sessions::{HistoryOptions, SessionKey, Sessions, SessionsOptions, TranscriptFormat};
use clawgate::store::SqliteStore;
use clawgate::support::{RandomIds, SystemClock};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::harness::Outcome;
use crate::support::DeviceKey;

/// A request has what it needs; a refusal can be answered.
pub fn frame(data: &[u8]) -> Outcome {
    match parse_binary(data) {
        Ok(request) => {
            assert!(!request.id.is_empty() && !request.method.is_empty());
            if let Some(params) = &request.params {
                serde_json::from_str::<Value>(params.get()).map(drop).unwrap_or_default();
            }
            format!("request {}", request.params.is_some())
        }
        Err(FrameError::NotJson) => "no JSON".to_owned(),
        Err(FrameError::NotRequest { id, text }) => {
            let answer =
                response_err(&id, &ErrorShape::invalid(&text), Profile::Standard(Version::V3));
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["id"], id);
            assert!(!text.is_empty());
            text
        }
    }
}

fn raw(data: &[u8]) -> Option<Box<RawValue>> {
    serde_json::from_slice(data).ok()
}

/// Refusals are words, not the whole of what was sent.
pub fn connect(data: &[u8]) -> Outcome {
    let Some(raw) = raw(data) else { return "no JSON".to_owned() };
    match parse_connect(Some(&raw)) {
        Ok(Connect::Standard(connect)) => {
            assert!(!connect.client.id.is_empty());
            format!("standard {} {}", connect.device.is_some(), connect.scopes.len().min(3))
        }
        Ok(Connect::Simple(connect)) => format!("simple {}", connect.device.is_some()),
        Err(error) => words(&error),
    }
}

fn words(error: &ErrorShape) -> Outcome {
    assert!(!error.message.is_empty());
    error.message.clone()
}

fn decoded<P: Params>(raw: &RawValue) -> Outcome {
    [Unknown::Refuse, Unknown::Ignore]
        .map(|unknown| match decode::params::<P>("x", Some(raw), unknown) {
            Ok(_) => "read".to_owned(),
            Err(error) => words(&error),
        })
        .join(" / ")
}

/// The first byte says which method.
pub fn params(data: &[u8]) -> Outcome {
    let Some((first, rest)) = data.split_first() else { return String::new() };
    let Some(raw) = raw(rest) else { return "no JSON".to_owned() };
    let readers: [fn(&RawValue) -> Outcome; 10] = [
        decoded::<methods::chat::ChatSendParams>,
        decoded::<methods::chat::ChatAbortParams>,
        decoded::<methods::agent::AgentParams>,
        decoded::<methods::sessions::SessionsListParams>,
        decoded::<methods::session_settings::SessionsPatchParams>,
        decoded::<methods::session_settings::SessionsCreateParams>,
        decoded::<methods::approvals::ExecApprovalRequestParams>,
        decoded::<methods::approvals::ExecApprovalsSetParams>,
        decoded::<methods::skills::SkillsUpdateParams>,
        decoded::<methods::secrets::SecretsResolveParams>,
    ];
    let index = usize::from(*first) % readers.len();
    format!("{index} {}", readers[index](&raw))
}

const NONCE: &str = "5f0c1a9e-6a1a-4a6e-9a3c-0d8a3d1f2b11";
const SECRET: &str = "0123456789abcdef0123456789abcdef";
const NOW_MS: u64 = 1_795_318_528_398;

/// A gateway's door, and a proof that opens it.
pub struct Proofs {
    auth: Auth,
    good: Value,
    runtime: Runtime,
    _home: TempDir,
}

impl Proofs {
    pub fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let env = Env::fixed([("OPENCLAW_GATEWAY_TOKEN", SECRET)], home.path());
        let looking = Overrides { read_only: true, ..Overrides::default() };
        let gateway = config::load(&env, &looking).unwrap().gateway;
        let store = SqliteStore::open(&home.path().join("fuzz.sqlite")).unwrap();
        let identity = home.path().join("identity.json");
        let identity = DeviceIdentity::load_or_create(&identity, &SystemClock).unwrap();
        let minter = Minter::new(Arc::new(identity), Arc::new(RandomIds));
        let devices = home.path().join("devices");
        let pairing = Pairing::new(Arc::new(store), minter, devices, Box::new(|_| {}));
        let auth = Auth::new(gateway.auth, gateway.control_ui, gateway.proxies, Arc::new(pairing));
        let mut good = json!({
            "minProtocol": 3, "maxProtocol": 3,
            "client": {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"},
            "role": "operator", "scopes": ["operator.read"], "caps": [],
            "auth": {"token": SECRET},
        });
        let signed_at = i64::try_from(NOW_MS).unwrap();
        good["device"] = DeviceKey::named("fuzz").proof(&good, NONCE, signed_at);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let proofs = Self { auth, good, runtime, _home: home };
        assert_eq!(proofs.admit(&proofs.good), "admitted");
        proofs
    }

    fn admit(&self, params: &Value) -> Outcome {
        let raw = serde_json::value::to_raw_value(params).unwrap();
        let Ok(Connect::Standard(connect)) = parse_connect(Some(&raw)) else {
            return "no connect".to_owned();
        };
        let peer = Peer::direct(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let admitted = self.auth.admit_standard(&connect, &peer, "c", NONCE, NOW_MS);
        match self.runtime.block_on(admitted) {
            Ok(_) => "admitted".to_owned(),
            Err(error) => words(&error),
        }
    }

    /// The bytes are a merge patch for the good connect, or for the proof alone
    /// when they begin with `!`. Whoever changes what is signed is not let in.
    pub fn check(&self, data: &[u8]) -> Outcome {
        let (place, data) = match data.split_first() {
            Some((b'!', rest)) => ("/device", rest),
            _ => ("", data),
        };
        let Ok(patch) = serde_json::from_slice::<Value>(data) else { return "no JSON".to_owned() };
        let mut params = self.good.clone();
        let Some(target) = params.pointer_mut(place) else { return String::new() };
        merge(target, &patch);
        let outcome = self.admit(&params);
        // Without a proof the token alone counts, and is worth no scopes.
        if outcome == "admitted" && params.get("device").is_some() {
            for signed in
                ["/role", "/scopes", "/client/id", "/client/mode", "/auth/token", "/device/id"]
            {
                assert_eq!(params.pointer(signed), self.good.pointer(signed), "{signed}: {params}");
            }
            assert_eq!(params["device"]["signedAt"], self.good["device"]["signedAt"], "{params}");
        }
        outcome
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, member) in members {
        if member.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], member);
        }
    }
}

/// Text, path and value, with a zero byte between them.
pub fn config(data: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, '\0');
    let (text, path, value) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or("gateway.port"),
        parts.next().unwrap_or("1"),
    );
    let file = Path::new("openclaw.json");
    let parsed = config::parse(text, file);
    let Ok(before) = &parsed else {
        return format!("text {}", parsed.unwrap_err());
    };
    // What is shown comes back as it was.
    let shown = redacted(before);
    let is_honest = !text.contains("__OPENCLAW_REDACTED__");
    if is_honest {
        let mut back = shown;
        for (path, value) in restored(&back.clone(), before).unwrap() {
            assert!(path.put(&mut back, value));
        }
        assert_eq!(back, *before);
    }
    let Ok(path) = path.parse::<ValuePath>() else { return "path".to_owned() };
    let value = config::parse(&format!("{{\"v\": {value}}}"), file);
    let Some(value) = value.ok().and_then(|it| it.get("v").cloned()) else {
        return "value".to_owned();
    };
    let removed = edit::remove(text, &path);
    if let Ok(removed) = &removed {
        let after = config::parse(removed, file).unwrap();
        assert!(path.find(before).is_none() || after != *before, "nothing was removed");
    }
    let set = edit::set(text, &path, &value);
    match &set {
        Ok(edited) => {
            let after = config::parse(edited, file).unwrap();
            assert_eq!(path.find(&after), Some(&value));
            let env = Env::fixed([], "/home/u");
            let verdict = config::check(edited, &env).map_err(|error| error.to_string());
            format!("set, {verdict:?}, {}", removed.is_ok())
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains("cannot be edited safely"), "{text}");
            format!("refused {text}")
        }
    }
}

const SESSION: &str = "5f0c1a9e-6a1a-4a6e-9a3c-0d8a3d1f2b11";

/// A state directory of the original with one transcript and this index, as it is read.
fn read_state(transcript: &[u8], index: &[u8]) -> Outcome {
    // Memory, where there is a place for it: each round makes a database.
    let place = Path::new("/dev/shm");
    let home = tempfile::tempdir_in(place).or_else(|_| tempfile::tempdir()).unwrap();
    let dir = home.path().join("agents/main/sessions");
    fs::create_dir_all(&dir).unwrap();
    let files =
        [(dir.join(format!("{SESSION}.jsonl")), transcript), (dir.join("sessions.json"), index)];
    for (file, bytes) in &files {
        fs::write(file, bytes).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let options = SessionsOptions {
            state_dir: home.path().to_owned(),
            rules: Arc::default(),
            format: TranscriptFormat::OpenClaw,
            reset: ResetSettings::default(),
        };
        let store = SqliteStore::open(&home.path().join("x.sqlite")).unwrap();
        let sessions =
            Sessions::open(options, Arc::new(store), Arc::new(SystemClock), Arc::new(RandomIds));
        let sessions = sessions.await.unwrap();
        let key = SessionKey::from_canonical("agent:main:main");
        let options = HistoryOptions { limit: 200, ..HistoryOptions::default() };
        let history = sessions.history(&key, options).await;
        let context = sessions.context(&key).await;
        let count = |all: usize| "abcdefghij"[all.min(9)..].to_owned();
        format!(
            "{} / {}",
            history.map_or_else(|error| error.to_string(), |page| count(page.messages.len())),
            context.map_or_else(|error| error.to_string(), |messages| count(messages.len())),
        )
    });
    for (file, bytes) in &files {
        assert_eq!(fs::read(file).unwrap(), *bytes, "reading changes no {}", file.display());
    }
    outcome
}

/// The bytes are a transcript of a state directory whose database is gone.
pub fn transcript(data: &[u8]) -> Outcome {
    let index = json!({"agent:main:main": {"sessionId": SESSION, "updatedAt": NOW_MS}});
    read_state(data, index.to_string().as_bytes())
}

/// The bytes are the index of such a directory.
pub fn index(data: &[u8]) -> Outcome {
    let line = json!({"type": "message", "id": "a", "parentId": null,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": "hi", "timestamp": NOW_MS}});
    read_state(format!("{line}\n").as_bytes(), data)
}

/// What passes as plain words is read by a shell as the same words.
pub fn command(data: &[u8]) -> Outcome {
    let command = String::from_utf8_lossy(data).into_owned();
    let analysis = analysis_of(&command);
    assert!(analysis["commandCount"].as_u64() >= Some(1));
    let Some(words) = plain_words(&command) else { return format!("not plain {analysis}") };
    assert!(!words.is_empty() && !words[0].is_empty());
    // A shell with nothing but its own printf: if it saw more than words, it
    // would find no program to run.
    let line = format!("printf '<%s>' {command}");
    let shell = Command::new("/bin/sh")
        .args(["-c", &line])
        .env_clear()
        .env("PATH", "/nonexistent")
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap();
    let expected: String = words.iter().map(|word| format!("<{word}>")).collect();
    assert_eq!(String::from_utf8_lossy(&shell.stdout), expected, "{command:?}");
    format!("{} words {analysis}", words.len().min(9))
}

/// Pattern, time zone and moment, with a zero byte between them; or one instant
/// as text.
pub fn cron(data: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, '\0');
    let expr = parts.next().unwrap_or_default().to_owned();
    let zone = parts.next().filter(|zone| !zone.is_empty()).map(str::to_owned);
    let moment = parts.next().and_then(|text| text.parse().ok()).unwrap_or(NOW_MS);
    let once = parse_at(&expr).is_some();
    let schedule = Schedule::Cron { expr, tz: zone, stagger_ms: None };
    let timing = match Timing::of(&schedule, "job") {
        Ok(timing) => timing,
        Err(error) => return format!("{once} {error}"),
    };
    let Some(next) = timing.next_after(moment) else { return format!("{once} never") };
    assert!(next > moment, "{next} is not after {moment}");
    assert_eq!(timing.last_until(next), Some(next), "{next} is an instant in both directions");
    let last = timing.last_until(next - 1);
    assert!(last.is_none_or(|last| last <= moment), "{last:?} is between {moment} and {next}");
    format!("{once} {}", (next - moment).ilog10())
}
