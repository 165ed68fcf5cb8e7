//! Why there are no settings.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::store::atomic::FileError;
use crate::support::descriptors;

/// What is said of a text that says nothing.
pub(super) const BLANK: &str = "is empty; write {} to go on without settings";

/// A configuration the gateway cannot work with.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Nobody says where the home directory is.
    #[error("cannot tell where the home directory is; set HOME or OPENCLAW_STATE_DIR")]
    NoHome,
    /// The file is there but cannot be read.
    #[error("cannot read the config file {}; {}", path.display(), remedy(source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is too big to be a config file.
    #[error("the config file {} is larger than {limit} bytes; is it the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// The file says nothing, not even that there are no settings.
    #[error("{} {}", path.display(), BLANK)]
    Blank {
        /// The file.
        path: PathBuf,
    },
    /// The text is not JSON5.
    #[error("{}:{line}:{column}: not valid JSON5: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A value has the wrong type or is out of range.
    #[error("{key}: {reason} (in {place})")]
    Invalid {
        /// Path of the key in the file, or name of the variable.
        key: String,
        /// What it must be.
        reason: String,
        /// Where it is written.
        place: String,
    },
    /// A value refers to a variable that is not set.
    #[error(
        "{key}: the environment variable {variable} is not set (in {place}); set it{}",
        or_text(variable, *is_in_text)
    )]
    MissingVariable {
        /// Path of the key in the file.
        key: String,
        /// The variable.
        variable: String,
        /// Where it is written.
        place: String,
        /// Whether it stands in a text, and not in a reference.
        is_in_text: bool,
    },
    /// Other machines could use the gateway without a credential.
    #[error(
        "refusing to listen on {host} without authentication: other machines could control this one; use --bind loopback, or --auth token or --auth password"
    )]
    ExposedWithoutAuth {
        /// The address asked for.
        host: IpAddr,
    },
    /// Password mode, no password.
    #[error(
        "gateway.auth.mode is password, but there is no password; set OPENCLAW_GATEWAY_PASSWORD, gateway.auth.password or --password"
    )]
    PasswordMissing,
    /// Trusted-proxy mode, no proxy to trust.
    #[error(
        "gateway.auth.mode is trusted-proxy, but gateway.trustedProxies is empty; list the addresses of the proxies there"
    )]
    ProxiesMissing,
    /// Trusted-proxy mode, no header to look at.
    #[error(
        "gateway.auth.mode is trusted-proxy, but gateway.auth.trustedProxy.userHeader is not set; name the header in which the proxy says who the user is"
    )]
    UserHeaderMissing,
    /// The token file is there but of no use.
    #[error("the token file {} is empty or not text; delete it and a new token is made at the next start", path.display())]
    BadTokenFile {
        /// The file.
        path: PathBuf,
    },
    /// The system has no random numbers for a token.
    #[error(
        "cannot get random bytes from the operating system for a token; set OPENCLAW_GATEWAY_TOKEN yourself"
    )]
    NoRandom(#[source] getrandom::Error),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What helps when a file cannot be read.
fn remedy(source: &io::Error) -> &'static str {
    if descriptors::is_lack(source) {
        "too many files are open, of this process or of all together"
    } else {
        "check its owner and permissions, or point OPENCLAW_CONFIG_PATH elsewhere"
    }
}

/// What a text may say in the place of a variable that is not there.
fn or_text(variable: &str, is_in_text: bool) -> String {
    if is_in_text {
        format!(", or write `$${{{variable}}}` for the text itself")
    } else {
        String::new()
    }
}

impl ConfigError {
    /// Whether no other text of the config file would help.
    pub const fn is_of_disk(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::File(_))
    }

    /// Whether a text cannot be parsed, or there is none: no command finds a key in it.
    pub const fn is_of_text(&self) -> bool {
        matches!(self, Self::Syntax { .. } | Self::Blank { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_not_said_to_be_a_matter_of_permissions() {
        let told = |source: io::Error| {
            ConfigError::Unreadable { path: PathBuf::from("x.json"), source }.to_string()
        };
        let lack = told(rustix::io::Errno::MFILE.into());
        assert!(lack.contains("too many files") && !lack.contains("permissions"), "{lack}");
        let refused = told(rustix::io::Errno::ACCESS.into());
        assert!(refused.contains("check its owner and permissions"), "{refused}");
    }
}
