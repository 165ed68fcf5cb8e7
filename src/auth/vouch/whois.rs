//! `tailscale whois`: whose an address of a tailnet is.
//!
//! Promises: at most [`AT_ONCE`] programs run, each for at most [`LIMIT`]; an
//! answer is kept for a while.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::support::reading;

/// The program, on the gateway's `PATH`; then where the app for the Mac has it.
const PROGRAMS: [&str; 2] = ["tailscale", "/Applications/Tailscale.app/Contents/MacOS/Tailscale"];
/// As in the original.
const LIMIT: Duration = Duration::from_secs(5);
/// As in the original: an address may be given to another machine.
const KEEP: Duration = Duration::from_mins(1);
/// As in the original: the daemon may just be starting.
const KEEP_FAILURE: Duration = Duration::from_secs(5);
/// Programs at once.
const AT_ONCE: usize = 4;
/// Addresses that are remembered.
const MAX_KNOWN: usize = 1000;
/// What the program says of one address takes some KiB.
const MAX_OUTPUT: u64 = 256 * 1024;

/// Asks Tailscale.
pub(super) struct Whois {
    known: Mutex<HashMap<IpAddr, Known>>,
    running: Semaphore,
}

#[derive(Clone)]
struct Known {
    login: Option<String>,
    until: Instant,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    user_profile: Profile,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Profile {
    login_name: String,
}

impl Default for Whois {
    fn default() -> Self {
        Self { known: Mutex::default(), running: Semaphore::new(AT_ONCE) }
    }
}

impl Whois {
    /// The login of the user whose machine has this address.
    pub async fn login(&self, ip: IpAddr) -> Option<String> {
        if let Some(known) = self.known(ip) {
            return known.login;
        }
        let _running = self.running.acquire().await.ok()?;
        // Whoever waited may find what the one before has learned.
        if let Some(known) = self.known(ip) {
            return known.login;
        }
        let login = ask(ip).await;
        let keep = if login.is_some() { KEEP } else { KEEP_FAILURE };
        let now = Instant::now();
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, known| known.until > now);
        }
        if known.len() < MAX_KNOWN {
            known.insert(ip, Known { login: login.clone(), until: now + keep });
        }
        login
    }

    fn known(&self, ip: IpAddr) -> Option<Known> {
        self.known.lock().get(&ip).filter(|known| known.until > Instant::now()).cloned()
    }
}

async fn ask(ip: IpAddr) -> Option<String> {
    let output = match tokio::time::timeout(LIMIT, run(ip)).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => {
            tracing::warn!(%error, "tailscale whois did not run");
            return None;
        }
        Err(_) => {
            tracing::warn!("tailscale whois took too long");
            return None;
        }
    };
    let answer: Answer = reading::of(&serde_json::from_slice(&output).ok()?).ok()?;
    Some(answer.user_profile.login_name).filter(|login| !login.trim().is_empty())
}

/// What the program says; an error of its own is no output.
async fn run(ip: IpAddr) -> std::io::Result<Vec<u8>> {
    let mut failure = ErrorKind::NotFound.into();
    for program in PROGRAMS {
        let started = Command::new(program)
            .args(["whois", "--json", &ip.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                failure = error;
                continue;
            }
            Err(error) => return Err(error),
        };
        let output = read(child.stdout.take()).await?;
        return Ok(if child.wait().await?.success() { output } else { Vec::new() });
    }
    Err(failure)
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut output = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT).read_to_end(&mut output).await?;
    }
    Ok(output)
}
