//! The one place that asks the process for its environment.

use std::ffi::OsString;

use anyhow::bail;

use crate::config::Env;

/// So begin the names of the variables that say which gateway and which files are meant.
const OURS: &str = "OPENCLAW_";

impl Env {
    /// Variables, home and working directory of this process.
    ///
    /// # Errors
    /// For a variable of ours that is no text: without it another place would be meant.
    pub fn from_process() -> anyhow::Result<Self> {
        if let Some(name) = unreadable(std::env::vars_os()) {
            bail!("{name} is not UTF-8; give it a value that is, or unset it");
        }
        let lookup = |name: &str| std::env::var(name).ok();
        Ok(Self::new(lookup, std::env::home_dir()).in_directory(std::env::current_dir().ok()))
    }
}

fn unreadable(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Option<String> {
    let mut wrong = variables.into_iter().filter(|(_, value)| value.to_str().is_none());
    wrong.find_map(|(name, _)| name.into_string().ok().filter(|name| name.starts_with(OURS)))
}
