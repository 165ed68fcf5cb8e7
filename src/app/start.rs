//! What a gateway begins with.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::document::ConfigIssue;
use crate::config::secrets::ResolvedSecrets;
use crate::config::watch::{MOST_READS, Seen, UNKNOWN};
use crate::config::{self, ConfigError, Env, Overrides, Paths, Settings};
use crate::dialects::{self, Dialects};
use crate::gateway::tls::Tls;
use crate::registry::Repair;

/// What a gateway begins with.
#[derive(Clone)]
pub struct Start {
    /// The effective configuration.
    pub settings: Settings,
    /// What the command line decides.
    pub overrides: Overrides,
    /// What is in the config file, at the latest.
    pub(super) seen: [u8; 32],
    /// Why these are not the settings of the file.
    pub repair: Option<Repair>,
    /// Why it is not the config as it is now, where no gateway begins with that.
    pub(super) refused: Option<ConfigIssue>,
    /// What may be spoken beside our own protocol.
    pub dialects: Dialects,
    /// What it had when it ended.
    pub(super) in_use: InUse,
    /// What comes after it, once it begins again.
    pub(super) next: Option<Box<Self>>,
}

/// What a gateway goes on with, be it gone where it came from.
#[derive(Clone, Default)]
pub(super) struct InUse {
    /// Its certificate.
    pub tls: Option<Arc<Tls>>,
    /// Secrets that its configuration refers to.
    pub secrets: ResolvedSecrets,
}

impl Start {
    /// The configuration as it is. A file that cannot be used leads to a gateway
    /// that helps to mend it, unless `is_strict` or the fault is elsewhere.
    ///
    /// # Errors
    /// What is wrong.
    pub fn load_or_mend(
        env: &Env,
        overrides: &Overrides,
        is_strict: bool,
    ) -> Result<Self, ConfigError> {
        let files = Vec::from(Paths::resolve(env)?.config_files());
        let (loaded, seen) = seen_by(&files, || Self::load(env, overrides));
        loaded.or_else(|error| {
            let wrong = (ConfigIssue::from(&error), error.is_of_text());
            // Nobody can mend a file for a disk that does not give or take it.
            let is_final = is_strict || error.is_of_disk();
            let mending = if is_final { None } else { Self::mending(env, overrides, wrong) };
            mending.map(|start| Self { seen, ..start }).ok_or(error)
        })
    }

    /// For a gateway that helps to mend its config file; `None` when that is not
    /// where the fault is.
    pub fn mend(env: &Env, overrides: &Overrides, issue: ConfigIssue) -> Option<Self> {
        Self::mending(env, overrides, (issue, false))
    }

    /// The same; also whether a text itself is wrong.
    fn mending(
        env: &Env,
        overrides: &Overrides,
        (issue, is_of_text): (ConfigIssue, bool),
    ) -> Option<Self> {
        let paths = Paths::resolve(env).ok()?;
        // Before it is looked at: a change in between is found then.
        let seen = Seen::of(&paths.config_files()).print;
        let path = paths.config_path;
        let settings = config::salvage(env, overrides).filter(|_| path.exists())?;
        let repair = Some(Repair { path, issue, is_of_text });
        Some(Self::new(settings, overrides, seen, repair))
    }

    /// The configuration as it is.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(env: &Env, overrides: &Overrides) -> Result<Self, ConfigError> {
        let mut files = Vec::from(Paths::resolve(env)?.config_files());
        let mut reads = 1;
        loop {
            let (settings, seen) = seen_by(&files, || config::load(env, overrides));
            let settings = settings?;
            let read = settings.files();
            if read == files && (seen != UNKNOWN || reads >= MOST_READS) {
                return Ok(Self::new(settings, overrides, seen, None));
            }
            // Which files it includes is known only now.
            (files, reads) = (read, reads + 1);
        }
    }

    /// The configuration as it is now; and what this one has seen of that, for when no
    /// gateway begins with it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn next(&self, env: &Env) -> Result<(Self, [u8; 32]), ConfigError> {
        // Its own files, which need not be those of the next one.
        let files = self.settings.files();
        let (next, seen) = seen_by(&files, || Self::load(env, &self.overrides));
        Ok((next?, seen))
    }

    /// What comes after it, when it has ended to begin again.
    pub fn take_next(&mut self) -> Option<Self> {
        self.next.take().map(|next| *next)
    }

    /// This once more, as no gateway begins with what the files say now: `issue`. What it
    /// has seen is tried again only when it has changed: whoever is connected pays for
    /// each try.
    #[must_use]
    pub fn once_more(self, issue: ConfigIssue) -> Self {
        // A gateway was to begin with it: its text is right.
        let again = |it: Repair| Repair { path: it.path, issue: issue.clone(), is_of_text: false };
        let repair = self.repair.map(again);
        Self { repair, refused: Some(issue), ..self }
    }

    fn new(
        settings: Settings,
        overrides: &Overrides,
        seen: [u8; 32],
        repair: Option<Repair>,
    ) -> Self {
        let (overrides, dialects) = (overrides.clone(), &dialects::ALL);
        let in_use = InUse::default();
        Self { settings, overrides, seen, repair, refused: None, dialects, in_use, next: None }
    }
}

/// What `read` makes of these files, and what stands for them; nothing does when somebody
/// changes them meanwhile, be it back: then they are looked at again.
fn seen_by<T>(files: &[PathBuf], read: impl FnOnce() -> T) -> (T, [u8; 32]) {
    let before = Seen::of(files);
    let found = read();
    let is_same = Seen::of(files) == before;
    (found, if is_same { before.print } else { UNKNOWN })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::watch::fingerprint;

    #[test]
    fn what_was_tried_is_known_by_the_files_of_who_goes_on() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".openclaw");
        std::fs::create_dir(&state).unwrap();
        let file = state.join("openclaw.json");
        std::fs::write(&file, r#"{"gateway": {"auth": {"mode": "none"}}}"#).unwrap();
        let env = Env::fixed([], home.path());
        let overrides = Overrides { read_only: true, ..Overrides::default() };
        let begun = Start::load(&env, &overrides).unwrap();

        std::fs::write(state.join("more.json"), "{}").unwrap();
        let text = r#"{"gateway": {"auth": {"mode": "none"}}, "$include": "./more.json"}"#;
        std::fs::write(&file, text).unwrap();
        let (next, seen) = begun.next(&env).unwrap();
        assert_ne!(next.settings.files(), begun.settings.files());
        assert_ne!(seen, begun.seen);
        assert_eq!(seen, fingerprint(&begun.settings.files()));
        let issue = ConfigIssue { path: "gateway.port".into(), message: "taken".into() };
        let before = Start { seen, ..begun }.once_more(issue.clone());
        assert_eq!((before.seen, before.refused), (seen, Some(issue)));
    }

    #[test]
    fn what_was_read_in_between_does_not_pass_for_what_is_there() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("openclaw.json");
        std::fs::write(&file, "A").unwrap();
        let files = [file.clone()];
        let read = || std::fs::read_to_string(&file).unwrap();
        assert_eq!(seen_by(&files, read), ("A".to_owned(), fingerprint(&files)));
        let others = || {
            std::fs::rename(&file, home.path().join("before")).unwrap();
            std::fs::write(&file, "B").unwrap();
            let found = read();
            std::fs::write(&file, "A").unwrap();
            found
        };
        assert_eq!(seen_by(&files, others), ("B".to_owned(), UNKNOWN));
    }
}
