//! What a session was about, kept when it begins anew: the hook `session-memory` of OpenClaw.
//!
//! Promises: no file holds two conversations; each is in the folder that is searched for
//! memories, with what was said last as it was said; who cannot write it is told so in the
//! log, and nobody is kept from beginning anew.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Zoned;
use tokio::time::timeout;

use crate::agent::parts::RunsParts;
use crate::agent::reach::{Reach, ReachError};
use crate::sessions::{LastWords, SessionError, SessionKey, WEBCHAT, Words};
use crate::support::blocking;

/// How long a workspace may take: it may be on a disk that does not answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Why a session is not remembered.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Files(#[from] ReachError),
    #[error("the workspace has not answered for {} s", LIMIT.as_secs())]
    Stalled,
    #[error("the gateway is stopping")]
    Stopped,
}

impl RunsParts {
    /// Keeps what a session was about, which is to begin anew, where that is wanted.
    pub async fn remember_session(&self, key: &SessionKey) {
        let Some(count) = self.settings.now().hooks.session_memory else { return };
        match self.keep_session(key, count).await {
            Ok(Some(path)) => tracing::info!(session = %key, path, "a session is remembered"),
            Ok(None) => {}
            Err(error) => tracing::warn!(session = %key, %error, "a session is not remembered"),
        }
    }

    /// The path in the workspace; `None` where no person has said anything, or nobody has
    /// the workspace any more.
    async fn keep_session(
        &self,
        key: &SessionKey,
        count: usize,
    ) -> Result<Option<String>, KeepError> {
        let settings = self.settings.now();
        if !settings.agents.has(key.agent(&self.keys.now()).as_str()) {
            return Ok(None);
        }
        let said = self.sessions.last_words(key, count).await?;
        let Some(LastWords { entry, words }) = said else { return Ok(None) };
        let ended = EndedSession {
            key: key.to_string(),
            id: entry.session_id,
            source: entry.channel.or(entry.last_channel).unwrap_or_else(|| WEBCHAT.into()),
            words,
            at: settings.workspace.local_time(self.clock.now_ms()),
        };
        let reach = Reach::new(&settings, &self.agent_of(key), true);
        let kept = timeout(LIMIT, blocking(move || ended.keep(&reach))).await;
        let kept = kept.map_err(|_| KeepError::Stalled)?.map_err(|_| KeepError::Stopped)?;
        Ok(Some(kept?))
    }
}

/// A conversation that ends.
#[derive(Debug)]
struct EndedSession {
    key: String,
    /// The one that the session had until now.
    id: String,
    /// The channel that it came by.
    source: String,
    /// What was said last.
    words: Vec<Words>,
    /// When it ends, where the user lives.
    at: Zoned,
}

impl EndedSession {
    /// Writes it into the workspace; the path in it.
    fn keep(&self, reach: &Reach) -> Result<String, ReachError> {
        let path = self.path();
        let made = reach.find_or_make(&path)?;
        if let Err(error) = made.place.replace(self.text().as_bytes()) {
            reach.unmake(&made.folders);
            return Err(error);
        }
        Ok(path)
    }

    /// With all of the id: two sessions of an agent may begin anew in the same minute.
    fn path(&self) -> String {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
        let id: String = self.id.chars().filter(is_plain).collect();
        format!("memory/{}-{id}.md", self.at.strftime("%Y-%m-%d-%H%M"))
    }

    fn text(&self) -> String {
        let Self { key, id, source, at, .. } = self;
        let mut text = format!(
            "# Session: {}\n\n- **Session Key**: {key}\n- **Session ID**: {id}\n\
             - **Source**: {source}\n\n## Conversation Summary\n",
            at.strftime("%Y-%m-%d %H:%M:%S %Z")
        );
        for Words { is_user, text: said } in &self.words {
            let who = if *is_user { "user" } else { "assistant" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n{who}: {said}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use crate::agent::reach::testing::Scene;

    fn ended(id: &str) -> EndedSession {
        let words = [(true, "How many?"), (false, "Ten.")];
        let words = words.map(|(is_user, text)| Words { is_user, text: text.into() }).into();
        let at = date(2026, 11, 28).at(14, 5, 9, 0).in_tz("Europe/Berlin").unwrap();
        let (key, source) = ("agent:main:main".into(), "telegram".into());
        EndedSession { key, id: id.into(), source, words, at }
    }

    #[test]
    fn no_file_holds_two_conversations_and_each_has_what_was_said() {
        let scene = Scene::new();
        let paths = ["customer-1001", "customer-1002"].map(|id| {
            let path = ended(id).keep(&scene.reach(true)).unwrap();
            assert_eq!(path, format!("memory/2026-11-28-1405-{id}.md"));
            path
        });
        for (path, id) in paths.iter().zip(["customer-1001", "customer-1002"]) {
            assert_eq!(
                scene.text(path),
                format!(
                    "# Session: 2026-11-28 14:05:09 CET\n\n- **Session Key**: agent:main:main\n\
                     - **Session ID**: {id}\n- **Source**: telegram\n\n\
                     ## Conversation Summary\n\nuser: How many?\n\nassistant: Ten.\n"
                )
            );
        }
    }

    #[test]
    fn an_id_of_somebody_elses_leads_nowhere_else() {
        let scene = Scene::new();
        let path = ended("../../up/and.away").keep(&scene.reach(true)).unwrap();
        assert_eq!(path, "memory/2026-11-28-1405-upandaway.md");
        assert!(scene.text(&path).contains("../../up/and.away"));
    }
}
