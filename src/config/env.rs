//! The surroundings of the process, as a value.
//!
//! Owns: how variables, the home and the working directory are asked for.
//! Must not: ask the process itself; `cli` does that once, tests never.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::Secret;

/// Says, with `1`, that nobody else listens in the private networks on the way to a gateway.
pub const ALLOW_PLAIN: &str = "OPENCLAW_ALLOW_INSECURE_PRIVATE_WS";

/// Whether a credential may pass in plain text through private networks.
pub fn allows_plain(env: impl Fn(&str) -> Option<String>) -> bool {
    env(ALLOW_PLAIN).is_some_and(|value| value.trim() == "1")
}

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Variables, home and working directory.
#[derive(Clone)]
pub struct Env {
    lookup: Arc<Lookup>,
    dotenv: Arc<BTreeMap<String, Secret>>,
    added: Arc<BTreeMap<String, Secret>>,
    home: Option<PathBuf>,
    cwd: Option<PathBuf>,
}

impl Env {
    /// From a way to look up variables and the user's home.
    pub fn new(
        lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        home: Option<PathBuf>,
    ) -> Self {
        let (dotenv, added) = (Arc::default(), Arc::default());
        Self { lookup: Arc::new(lookup), dotenv, added, home, cwd: None }
    }

    /// These variables and no others.
    pub fn fixed<const N: usize>(variables: [(&str, &str); N], home: impl Into<PathBuf>) -> Self {
        let variables: BTreeMap<String, String> =
            variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self::new(move |name| variables.get(name).cloned(), Some(home.into()))
    }

    /// What relative paths in variables are relative to.
    #[must_use]
    pub fn in_directory(mut self, cwd: Option<PathBuf>) -> Self {
        self.cwd = cwd;
        self
    }

    /// The same, where `over` has the word about each variable of the process: it gets the
    /// name and the value, if there is one.
    #[must_use]
    pub fn overlaid(
        &self,
        over: impl Fn(&str, Option<String>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let own = Arc::clone(&self.lookup);
        Self { lookup: Arc::new(move |name: &str| over(name, own(name))), ..self.clone() }
    }

    /// The variable, without surrounding space; an empty one counts as not set.
    pub fn get(&self, name: &str) -> Option<String> {
        let set = |value: &str| Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        let own = (self.lookup)(name).and_then(|value| set(&value));
        own.or_else(|| set(self.dotenv.get(name)?.expose()))
            .or_else(|| set(self.added.get(name)?.expose()))
    }

    /// The same with these variables where it has none of that name; those that
    /// were added before are no longer there.
    #[must_use]
    pub fn with(&self, added: Arc<BTreeMap<String, Secret>>) -> Self {
        Self { added, ..self.clone() }
    }

    /// What was added with [`Env::with`].
    pub(super) fn added(&self) -> Arc<BTreeMap<String, Secret>> {
        Arc::clone(&self.added)
    }

    /// The same with these variables of the file `.env`, where it has none of that
    /// name itself; they beat what was added with [`Env::with`].
    #[must_use]
    pub(super) fn with_dotenv(&self, dotenv: Arc<BTreeMap<String, Secret>>) -> Self {
        Self { dotenv, ..self.clone() }
    }

    /// Those of the file `.env`.
    pub(super) fn dotenv(&self) -> Arc<BTreeMap<String, Secret>> {
        Arc::clone(&self.dotenv)
    }

    /// Only what the process has itself.
    #[must_use]
    pub(super) fn of_process(&self) -> Self {
        Self { dotenv: Arc::default(), added: Arc::default(), ..self.clone() }
    }

    /// The user's home.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The directory the process was started in.
    pub fn cwd(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("home", &self.home).finish_non_exhaustive()
    }
}
