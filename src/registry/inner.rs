//! Calls that are made in the name of a caller, inside of one of his requests.
//!
//! Promises: such a call may do what the caller may do by himself, no more and
//! no less; what it has to tell waits until the request is answered.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::context::{Caller, Ctx};
use super::exchange::Exchange;
use super::table::Reply;
use crate::protocol::{ErrorShape, Profile, Version};
use crate::sessions::SessionKey;

impl Ctx {
    /// The same for calls inside of a request that is in the lane of `key`: they
    /// need not wait for it.
    #[must_use]
    pub fn within_lane(&self, key: &SessionKey) -> Self {
        Self { lane: Some(key.clone()), ..self.clone() }
    }

    /// The same for calls that are done before the request is: what waits for an answer
    /// waits for no other than theirs, until this is dropped.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { exchange: Arc::default(), ..self.clone() }
    }

    /// Calls a method with the caller's rights. What is refused to chats of the
    /// web only because they have commands for it is not refused here.
    ///
    /// # Errors
    /// Those that the caller would get for the same request.
    pub async fn call(&self, method: &str, params: &Value) -> Reply<Value> {
        let exchange = Arc::<Exchange>::default();
        // Lives until the request is answered, and with it what waits for that.
        self.after_answer(Arc::clone(&exchange));
        let caller = Caller {
            profile: Profile::Standard(Version::V3),
            is_webchat: false,
            is_dashboard: false,
            key_names: Arc::default(),
            ..Caller::clone(&self.caller)
        };
        let cx = Self { caller: caller.into(), exchange, ..self.clone() };
        let failed = |error: serde_json::Error| ErrorShape::unavailable(format!("Error: {error}"));
        let params = RawValue::from_string(params.to_string()).map_err(failed)?;
        let answer = self.services.registry.call(cx, method, Some(params));
        let answer = answer.map_err(|denial| denial.error)?.await?;
        serde_json::from_str(answer.json()).map_err(failed)
    }

    /// Whether the caller may call a method.
    ///
    /// # Errors
    /// What a call would be refused with.
    pub fn check(&self, method: &str) -> Reply<()> {
        self.services.registry.check(&self.caller.principal, method)
    }
}
