//! What somebody was let in with.

use std::sync::Arc;

use crate::auth::Auth;
use crate::auth::pairing::Standing;
use crate::bus::{Closing, Subscriber};

use super::upgrade::Gateway;

/// The rules and the token that somebody was let in by. Both may change between
/// then and the moment that he joins the hub; whoever changes them closes only
/// who has joined by then.
#[derive(Clone)]
pub struct Footing {
    auth: Arc<Auth>,
    standing: Option<Standing>,
}

impl Footing {
    /// By these rules, and what a device stands on.
    pub const fn new(auth: Arc<Auth>, standing: Option<Standing>) -> Self {
        Self { auth, standing }
    }

    /// Closes a connection that has joined if it would not be let in any more.
    pub async fn look_again(&self, gateway: &Gateway, subscriber: &Subscriber) {
        if !gateway.auth.now().still_admits(&subscriber.principal, &self.auth) {
            subscriber.outbox.close(Closing::auth_changed());
        }
        let services = &gateway.services;
        if let Some(standing) = &self.standing
            && !services.pairing.still_stands(standing, services.clock.now_ms()).await
        {
            subscriber.outbox.close(Closing::device_removed());
        }
    }
}
