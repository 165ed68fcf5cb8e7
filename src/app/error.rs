//! Why a gateway does not start, or go on.

use std::io;
use std::net::SocketAddr;

use crate::agent::SendError;
use crate::auth::IdentityError;
use crate::config::document::ConfigIssue;
use crate::config::secrets::SecretError;
use crate::gateway::tls::TlsError;
use crate::providers::CatalogError;
use crate::sessions::SessionError;
use crate::store::StoreError;

/// Why the gateway stopped, or never ran.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// Somebody else listens there.
    #[error(
        "cannot listen on {address}: the port is in use; find the other process with `lsof -nP -iTCP:{port} -sTCP:LISTEN`, or choose another port with --port, OPENCLAW_GATEWAY_PORT or gateway.port",
        port = address.port()
    )]
    PortInUse {
        /// The address asked for.
        address: SocketAddr,
    },
    /// The system does not let us listen there.
    #[error(
        "cannot listen on {address}; --bind and --port (gateway.bind, gateway.port) choose another address"
    )]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// One of the further ports is not to be had.
    #[error(
        "gateway.dialects.ports: cannot listen on {address}; find the process that does with `lsof -nP -iTCP:{port} -sTCP:LISTEN`, or name another port",
        port = address.port()
    )]
    FurtherPort {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system does not tell us when to stop.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// The configuration names an API that there is not, or leaves no model.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The configuration refers to a secret that there is not.
    #[error("{path}: {source}")]
    Secret {
        /// Where the reference stands.
        path: String,
        /// Why it leads nowhere.
        #[source]
        source: SecretError,
    },
    /// The database does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sessions do not open.
    #[error(transparent)]
    Sessions(#[from] SessionError),
    /// The system does not say which program this is.
    #[error("cannot find out which program this is: {0}")]
    OwnProgram(#[source] io::Error),
    /// There is no room for a gateway that mends its config file.
    #[error("cannot make a folder for temporary files: {0}")]
    Place(#[source] io::Error),
    /// What the last process left unfinished cannot be completed.
    #[error("cannot recover the runs of the last stop: {0}")]
    Recovery(#[from] SendError),
    /// There is no certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The gateway's own key is not readable.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The listener failed for good.
    #[error("the listener failed")]
    Serve(#[source] io::Error),
}

impl AppError {
    /// With the key, where one is to blame: texts of most errors begin with it.
    pub fn issue(&self) -> ConfigIssue {
        let text = match self {
            Self::Listen { source, .. } | Self::FurtherPort { source, .. } => {
                format!("{self}: {source}")
            }
            _ => self.to_string(),
        };
        let key = match self {
            Self::PortInUse { .. } => Some("gateway.port"),
            Self::Listen { .. } => Some("gateway.bind"),
            _ => None,
        };
        if let Some(key) = key {
            return ConfigIssue { path: key.to_owned(), message: text };
        }
        match text.split_once(": ") {
            Some((path, message)) if !path.contains(char::is_whitespace) => {
                ConfigIssue { path: path.to_owned(), message: message.to_owned() }
            }
            _ => ConfigIssue { path: String::new(), message: text },
        }
    }

    /// What is wrong with the config file, when that is why.
    pub fn of_config(&self) -> Option<ConfigIssue> {
        let is_it = matches!(self, Self::Catalog(_) | Self::Secret { .. });
        is_it.then(|| self.issue())
    }

    /// A reference in the configuration that leads nowhere.
    pub(super) fn lost((path, source): (&str, SecretError)) -> Self {
        Self::Secret { path: path.to_owned(), source }
    }
}
