//! Secrets that a program knows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::{ExecProvider, SecretError, file};
use crate::config::Env;
use crate::support::{ProcessGroup, Secret, json};

/// The version of the question and the answer.
const PROTOCOL: u64 = 1;
const NO_JSON: &str = "its answer is not JSON";

/// Asks for all `ids` at once. Ids that the program does not know are missing
/// from the answer.
pub async fn ask(
    provider: &ExecProvider,
    name: &str,
    ids: &[&str],
    env: &Env,
) -> Result<HashMap<String, Secret>, SecretError> {
    let program = trusted(provider)?;
    let what = || provider.command.clone();
    let mut child = start(provider, &program, env)
        .map_err(|source| SecretError::Unreadable { path: what(), source })?;
    let question = json!({"protocolVersion": PROTOCOL, "provider": name, "ids": ids}).to_string();
    // Dropped half way, it goes with whatever it has started.
    let mut group = ProcessGroup::of(&child);
    let talk = talk(&mut child, provider, question);
    let outcome = tokio::time::timeout(provider.timeout, talk).await;
    let said = outcome.unwrap_or_else(|_| Err(slow(provider, provider.timeout)));
    if child.id().is_none() {
        group.leave();
    }
    let said = said?;
    answers(&said, ids, provider.json_only)
        .map_err(|why| SecretError::NoAnswer { what: what(), why })
}

/// The program that runs, links followed.
fn trusted(provider: &ExecProvider) -> Result<PathBuf, SecretError> {
    let path = provider.command.as_path();
    let unreadable = |source| SecretError::Unreadable { path: path.to_owned(), source };
    let link = std::fs::symlink_metadata(path).map_err(unreadable)?.is_symlink();
    if link && !provider.allow_symlink_command {
        return Err(SecretError::Link(path.to_owned()));
    }
    let real = std::fs::canonicalize(path).map_err(unreadable)?;
    let inside = |dir: &PathBuf| {
        let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
        real.starts_with(dir)
    };
    if !provider.trusted_dirs.is_empty() && !provider.trusted_dirs.iter().any(inside) {
        return Err(SecretError::Untrusted(real));
    }
    if !provider.allow_insecure_path {
        file::check_program(&real)?;
    }
    Ok(real)
}

/// Starts it in a process group of its own, with nothing of our environment.
fn start(provider: &ExecProvider, program: &Path, env: &Env) -> std::io::Result<Child> {
    let passed = provider.pass_env.iter().filter_map(|name| Some((name, env.get(name)?)));
    Command::new(program)
        .args(&provider.args)
        .env_clear()
        .envs(passed)
        .envs(&provider.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // What it complains about may quote what it knows.
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

async fn talk(
    child: &mut Child,
    provider: &ExecProvider,
    question: String,
) -> Result<Vec<u8>, SecretError> {
    let what = || provider.command.clone();
    let broken = |source| SecretError::Unreadable { path: what(), source };
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let asking = async move {
        if let Some(mut stdin) = stdin {
            // Programs that answer without being asked need not read.
            let _ = stdin.write_all(question.as_bytes()).await;
        }
    };
    let listening = async {
        let mut said = Vec::new();
        let Some(mut stdout) = stdout else { return Ok(said) };
        loop {
            let read = tokio::time::timeout(provider.no_output_timeout, stdout.read_buf(&mut said));
            let read = read.await.map_err(|_| slow(provider, provider.no_output_timeout))?;
            if u64::try_from(said.len()).unwrap_or(u64::MAX) > provider.max_output_bytes {
                let limit = provider.max_output_bytes;
                return Err(SecretError::TooLarge { what: what(), limit });
            }
            if read.map_err(broken)? == 0 {
                return Ok(said);
            }
        }
    };
    let ((), said) = tokio::join!(asking, listening);
    let said = said?;
    let status = child.wait().await.map_err(broken)?;
    if status.success() {
        Ok(said)
    } else {
        Err(SecretError::Failed { path: what(), status: status.to_string() })
    }
}

fn slow(provider: &ExecProvider, limit: Duration) -> SecretError {
    SecretError::Slow { what: provider.command.clone(), limit }
}

fn answers(
    said: &[u8],
    ids: &[&str],
    json_only: bool,
) -> Result<HashMap<String, Secret>, &'static str> {
    let text = std::str::from_utf8(said).map_err(|_| "its answer is not UTF-8 text")?;
    let Ok(answer) = serde_json::from_str::<Value>(text) else {
        let [only] = ids else { return Err(NO_JSON) };
        if json_only {
            return Err(NO_JSON);
        }
        // Who says nothing knows no secret: an empty one would take the place of a good one.
        let secret = Some(Secret::new(text)).filter(|secret| !secret.is_empty());
        return Ok(secret.map(|secret| ((*only).to_owned(), secret)).into_iter().collect());
    };
    if answer.get("protocolVersion").and_then(Value::as_u64) != Some(PROTOCOL) {
        return Err("its answer has no protocolVersion 1");
    }
    let values = answer.get("values").and_then(Value::as_object);
    let values = values.ok_or("its answer has no values")?;
    let known = |id: &&str| {
        let secret = Secret::new(values.get(*id)?.as_str()?);
        (!secret.is_empty()).then(|| ((*id).to_owned(), secret))
    };
    Ok(ids.iter().filter_map(known).collect())
}
