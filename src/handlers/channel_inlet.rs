//! The way of a channel's message to an agent: that of `chat.send`, with the
//! rights of the person who wrote it.

use std::sync::{Arc, Weak};

use super::chat;
use crate::auth::Principal;
use crate::bus::Subscriber;
use crate::channels::{Inlet, InletError, Said, Taken};
use crate::protocol::methods::chat::ChatSendParams;
use crate::protocol::{ErrorCode, ErrorShape, Profile, Version};
use crate::registry::{Caller, Ctx, Services};
use crate::support::BoxFuture;

/// What programs are called that speak for people of channels.
const CLIENT: &str = "channel";

/// Accepts messages of channels.
pub struct ChannelInlet {
    /// They hold the channels, which hold this.
    services: Weak<Services>,
}

impl ChannelInlet {
    /// One for this gateway.
    pub fn new(services: &Arc<Services>) -> Self {
        Self { services: Arc::downgrade(services) }
    }
}

impl Inlet for ChannelInlet {
    fn accept(&self, said: Said) -> BoxFuture<'_, Result<Taken, InletError>> {
        Box::pin(async move {
            let gone = || InletError::Later("the gateway is stopping".into());
            let services = self.services.upgrade().ok_or_else(gone)?;
            accept(services, said).await
        })
    }
}

async fn accept(services: Arc<Services>, said: Said) -> Result<Taken, InletError> {
    let (cx, key) = (Ctx::new(services, caller(&said)), said.key.clone());
    cx.enter_lane(&key).await;
    let params = ChatSendParams {
        session_key: key.to_string(),
        message: said.text,
        thinking: None,
        attachments: said.attachments,
        timeout_ms: None,
        deliver: false,
        route: None,
        provenance: None,
        provenance_receipt: None,
        idempotency_key: said.run_id,
    };
    let checked = chat::check(&cx, key, params).await.map_err(refused)?;
    let answer = chat::deliver(&cx, checked.never_a_repeat()).await;
    match answer {
        Ok(answer) if answer["aborted"].is_boolean() => {
            Ok(Taken::Stopped(answer["runIds"].as_array().map_or(0, Vec::len)))
        }
        Ok(_) => Ok(Taken::Run),
        // It was accepted before the last stop; its end is told all the same.
        Err(error) if is_interrupted(&error) => Ok(Taken::Run),
        Err(error) => Err(refused(error)),
    }
}

fn is_interrupted(error: &ErrorShape) -> bool {
    let payload = error.payload.as_deref();
    payload.is_some_and(|it| it["summary"].as_str().is_some_and(|it| it == chat::INTERRUPTED))
}

/// What cannot be served now may be later; everything else is told.
fn refused(error: ErrorShape) -> InletError {
    match error.code {
        ErrorCode::Unavailable => InletError::Later(error.message),
        _ => InletError::Refused(error.message),
    }
}

fn caller(said: &Said) -> Caller {
    let Said { channel, account, person, is_owner, .. } = said;
    let principal = Arc::new(Principal::of_channel(channel, account, person, *is_owner));
    let id: Arc<str> = format!("{CLIENT}:{channel}:{account}:{person}").into();
    Caller {
        subscriber: Arc::new(Subscriber::new(Arc::clone(&id), Arc::clone(&principal), &[])),
        principal,
        profile: Profile::Standard(Version::V3),
        client_id: CLIENT.into(),
        name: id,
        is_webchat: false,
        is_dashboard: false,
        key_names: Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_served_now_is_asked_again_and_the_rest_is_told() {
        let later = refused(ErrorShape::unavailable("Error: x"));
        assert_eq!(later, InletError::Later("Error: x".into()));
        let told = refused(ErrorShape::invalid("no"));
        assert_eq!(told, InletError::Refused("no".into()));
        let payload = serde_json::json!("x");
        assert!(!is_interrupted(&ErrorShape::unavailable("x").payload(payload)));
    }
}
