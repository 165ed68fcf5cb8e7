//! The files that an answer names, on their way out.
//!
//! Promises: a file of this machine goes out only from the workspace of its
//! agent or from the gateway's media folder; what lies elsewhere on the web is
//! fetched under the rules of `tools.web.fetch.ssrfPolicy`; nothing is larger
//! than the channel takes. What cannot be had is told, and the words go out.

use std::io::ErrorKind;
use std::path::PathBuf;

use super::body::MediaItem;
use super::media::MediaKeepError;
use super::service::Channels;
use super::state::Account;
use crate::agent::Runs;
use crate::agent::reach::{Reach, ReachError};
use crate::agent::web::{FetchError, GuardedClient, PageRequest};
use crate::config::{AgentSettings, Settings};
use crate::sessions::SessionKey;
use crate::support::blocking;

/// What we say we are.
const USER_AGENT: &str = concat!("clawgate/", env!("CARGO_PKG_VERSION"));
/// The gateway's files of messages, below the state directory.
const MEDIA_FOLDER: &str = "media";

/// Why a file does not go out.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("it is neither in the workspace nor among the gateway's media")]
    Outside,
    #[error("it is larger than the {0} MB that this channel takes")]
    TooLarge(u64),
    #[error("its server answered {0}")]
    Status(u16),
    #[error("there is no such file")]
    Missing,
    // Where it is on this machine is not told to people of a chat.
    #[error("it cannot be read")]
    Unreadable,
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Keep(#[from] MediaKeepError),
    #[error("the gateway stops")]
    Stopped,
}

impl Channels {
    /// Keeps the files that an answer names; what could not be had is told in
    /// words.
    pub(super) async fn attach(
        &self,
        runs: &Runs,
        account: &Account,
        key: &SessionKey,
        named: &[String],
    ) -> (Vec<MediaItem>, String) {
        let (mut items, mut told) = (Vec::new(), String::new());
        for name in named {
            match self.attach_one(runs, account, key, name).await {
                Ok(item) => items.push(item),
                Err(error) => {
                    tracing::warn!(file = name, %error, "a file of an answer is not sent");
                    told.push_str(&not_sent(name, &error.to_string()));
                }
            }
        }
        (items, told)
    }

    async fn attach_one(
        &self,
        runs: &Runs,
        account: &Account,
        key: &SessionKey,
        name: &str,
    ) -> Result<MediaItem, AttachError> {
        let megabytes = account.config.media_max_mb;
        let id = runs.parts().ids.uuid();
        if name.starts_with("http://") || name.starts_with("https://") {
            let bytes = self.fetch_file(name, megabytes).await?;
            return Ok(self.keep_file(&id, &last_name(name), bytes).await?);
        }
        if let Some(kept) = self.kept_file(name).await {
            return Ok(kept);
        }
        let (settings, agent) = (self.0.parts.settings.now(), runs.parts().agent_of(key));
        let path = name.strip_prefix("file://").unwrap_or(name).to_owned();
        let reading = blocking(move || read_named(&settings, &agent, &path, megabytes));
        let bytes = reading.await.map_err(|_| AttachError::Stopped)??;
        Ok(self.keep_file(&id, &last_name(name), bytes).await?)
    }

    async fn fetch_file(&self, url: &str, megabytes: u64) -> Result<Vec<u8>, AttachError> {
        let parts = &self.0.parts;
        let settings = parts.settings.now();
        let rules = &settings.web.fetch;
        let env = settings.environment(&parts.env);
        let client = GuardedClient::of(rules, &env, self.0.tls.clone());
        let request = PageRequest {
            url,
            user_agent: rules.user_agent.as_deref().unwrap_or(USER_AGENT),
            redirects: rules.redirects(),
            max_bytes: usize::try_from(megabytes.saturating_mul(1024 * 1024)).unwrap_or(usize::MAX),
            limit: rules.timeout(),
        };
        let fetched = client.get(&request).await?;
        if !fetched.status.is_success() {
            return Err(AttachError::Status(fetched.status.as_u16()));
        }
        if fetched.body.is_cut {
            return Err(AttachError::TooLarge(megabytes));
        }
        Ok(fetched.body.bytes)
    }
}

/// Reads a file of an agent's workspace, or of the gateway's media, of at most so many
/// megabytes. Blocks.
///
/// # Errors
/// When it is elsewhere, too large, or cannot be read.
pub fn read_named(
    settings: &Settings,
    agent: &AgentSettings,
    written: &str,
    megabytes: u64,
) -> Result<Vec<u8>, AttachError> {
    let reach = Reach::new(settings, agent, true);
    let found = match reach.find(written) {
        Err(ReachError::Outside(path)) if is_media(settings, &path) => {
            reach.limited(false).find(written)
        }
        found => found,
    };
    let read = found.and_then(|found| found.read(megabytes.saturating_mul(1024 * 1024)));
    read.map_err(|error| match error {
        ReachError::Outside(_) | ReachError::Private(_) => AttachError::Outside,
        ReachError::TooLarge { .. } => AttachError::TooLarge(megabytes),
        ReachError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            AttachError::Missing
        }
        _ => AttachError::Unreadable,
    })
}

/// How it is told that a file of an answer does not go out.
pub fn not_sent(name: &str, why: &str) -> String {
    format!("\n⚠️ {} could not be sent: {why}", last_name(name))
}

/// Whether a path names something in the gateway's media folder. Where it leads
/// is judged when it is opened.
fn is_media(settings: &Settings, path: &std::path::Path) -> bool {
    let folder: PathBuf = settings.paths.state_dir.join(MEDIA_FOLDER);
    let real = std::fs::canonicalize(path).unwrap_or_default();
    std::fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder))
}

/// What people call a file with this path or address.
pub fn last_name(name: &str) -> String {
    let is_address = name.starts_with("http://") || name.starts_with("https://");
    let path = if is_address { name.split(['?', '#']).next() } else { Some(name) };
    let path = path.unwrap_or_default();
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if last.is_empty() { "file".to_owned() } else { last.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_called_by_the_end_of_its_path() {
        for (name, shown) in [
            ("./out/plot.png", "plot.png"),
            ("https://x.test/a/b.png?size=1", "b.png"),
            ("./out/plot #2?.png", "plot #2?.png"),
            ("https://x.test/", "x.test"),
            ("/", "file"),
        ] {
            assert_eq!(last_name(name), shown);
        }
    }
}
