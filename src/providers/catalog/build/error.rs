//! Why there is no catalogue.

use super::Api;
use crate::config::foreign::APIS;

/// Why the configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// `api` is none that we speak.
    #[error("{path}: unknown api {api:?}; known are {known}")]
    UnknownApi {
        /// Where it stands.
        path: String,
        /// What it says.
        api: String,
        /// What would be right.
        known: String,
    },
    /// `api` is one that only OpenClaw speaks.
    #[error(
        "{path}: provider {provider} speaks api {api}, which is not built in; built in are {known}"
    )]
    NotBuiltIn {
        /// What leads there.
        path: String,
        /// The provider.
        provider: String,
        /// What it speaks.
        api: String,
        /// What would be right.
        known: String,
    },
    /// A provider that we do not know ourselves has no address.
    #[error("{path}: set it to the address of the provider's API")]
    MissingBaseUrl {
        /// Where it should stand.
        path: String,
    },
    /// A provider cannot be reached as it is asked for.
    #[error("{path}: {reason}")]
    Request {
        /// Where it stands.
        path: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Nothing is left to answer.
    #[error(
        "models.mode is \"replace\", but models.providers has no model: add one, or use \"merge\""
    )]
    NoModels,
}

impl CatalogError {
    /// That a provider does not speak any API of ours, as `path` says.
    pub(super) fn of_api(path: String, provider: &str, api: &str) -> Self {
        let (api, known) = (api.to_owned(), Api::names());
        if APIS.is_foreign(&api) {
            Self::NotBuiltIn { path, provider: provider.to_owned(), api, known }
        } else {
            Self::UnknownApi { path, api, known }
        }
    }

    /// What was made; nothing of an API that only OpenClaw speaks.
    ///
    /// # Errors
    /// Everything else that is wrong.
    pub(super) fn pass_over<T>(made: Result<T, Self>) -> Result<Option<T>, Self> {
        match made {
            Err(Self::NotBuiltIn { .. }) => Ok(None),
            made => made.map(Some),
        }
    }
}
