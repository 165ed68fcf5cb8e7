//! `config.*`.

use crate::protocol::decode::{
    Fields, Params, integer_from, non_empty, object, text, text_or_number,
};

/// Params of `config.set`, and what `config.apply` and `config.patch` have as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigWriteParams {
    /// JSON5: the whole config, or what is merged into it.
    pub raw: String,
    /// Hash of the config that the client has read.
    pub base_hash: Option<String>,
}

/// Params of `config.set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSetParams(pub ConfigWriteParams);

impl Params for ConfigSetParams {
    fn read(f: &mut Fields) -> Self {
        Self(write(f))
    }
}

/// Params of `config.apply` and `config.patch`. What they say of a restart is
/// checked and of no use: this gateway does not restart itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigApplyParams(pub ConfigWriteParams);

impl Params for ConfigApplyParams {
    fn read(f: &mut Fields) -> Self {
        let read = write(f);
        f.optional("sessionKey", text());
        f.optional("deliveryContext", object::<DeliveryContext>());
        f.optional("note", text());
        f.optional("restartDelayMs", integer_from(0));
        Self(read)
    }
}

fn write(f: &mut Fields) -> ConfigWriteParams {
    ConfigWriteParams {
        raw: f.required("raw", non_empty()),
        base_hash: f.optional("baseHash", non_empty()),
    }
}

/// Where the original tells of its restart.
#[derive(Debug, Clone, Default)]
struct DeliveryContext;

impl Params for DeliveryContext {
    fn read(f: &mut Fields) -> Self {
        f.optional("channel", text());
        f.optional("to", text());
        f.optional("accountId", text());
        f.optional("threadId", text_or_number());
        Self
    }
}
