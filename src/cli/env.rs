//! The one place that asks the process for its environment.

use crate::config::Env;

impl Env {
    /// Variables, home and working directory of this process.
    pub fn from_process() -> Self {
        let lookup = |name: &str| std::env::var(name).ok();
        Self::new(lookup, std::env::home_dir()).in_directory(std::env::current_dir().ok())
    }
}
