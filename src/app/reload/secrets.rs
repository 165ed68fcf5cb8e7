//! Secrets are looked up again while the gateway runs.
//!
//! Promises: what is found is used with the settings that refer to it, since no other ones
//! come into use meanwhile; it is all in use, or none of it where one that is needed cannot
//! be had. Must not: wait for anybody but providers of secrets, who have limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Reloader;
use crate::config::Settings;
use crate::config::edit::Step;
use crate::config::hooks::proves;
use crate::config::secrets::{
    self, ResolvedSecrets, SecretInput, SecretRef, SecretTarget, targets,
};
use crate::providers::CatalogSources;
use crate::registry::{RenewError, Renewed, TakenUp};

impl Reloader {
    /// Looks all up that the settings in use refer to, and has them used from now on.
    pub(super) async fn renew_secrets(&mut self, caller: &str) -> Result<Renewed, RenewError> {
        let services = Arc::clone(self.services());
        let settings = services.settings.now();
        let mode = settings.gateway.auth.mode.to_string();
        let (needed, others): (Vec<_>, Vec<_>) =
            targets(&settings.raw).into_iter().partition(|target| target.is_needed(&mode));
        let (must, may) = (references(&needed), references(&others));
        let env = settings.environment(&self.env);
        // What was told for a text before this is asked for again as well.
        self.checked = None;
        let reloaded = secrets::reload(&must, &may, &settings.secrets, &env).await;
        let (found, lost) = reloaded.map_err(|lost| {
            for (reference, error) in &lost {
                tracing::error!(%reference, %error, "secrets stay as they are");
            }
            RenewError::Lost
        })?;
        for (reference, error) in &lost {
            tracing::warn!(%reference, %error, "a secret cannot be had");
        }
        let failover = services.models.failover();
        let lookup = |name: &str| env.get(name);
        failover.catalog().renew(&CatalogSources::plain(&settings.models, &lookup, &found));
        failover.credentials().forget();
        let is_stale = |target: &SecretTarget| is_stale(&settings, target, &found);
        let is_old_in_use = needed.iter().chain(&others).any(is_stale)
            || services.runs.parts().channels.are_stale(&found);
        let lost = lost.len();
        if !is_old_in_use {
            return Ok(Renewed { lost, taken: TakenUp::default() });
        }
        let taken = Box::pin(self.take_up(Some(caller), true)).await?;
        Ok(Renewed { lost, taken })
    }
}

fn references(targets: &[SecretTarget]) -> BTreeSet<SecretRef> {
    targets.iter().map(|target| target.reference.clone()).collect()
}

/// Whether what lets clients in, or requests to hooks, or the gateway into web servers, is not
/// what the target leads to.
fn is_stale(settings: &Settings, target: &SecretTarget, found: &ResolvedSecrets) -> bool {
    let (auth, hooks) = (&settings.gateway.auth, &settings.hooks);
    let new = found.get(&target.reference);
    let is_other = |token: Option<&SecretInput>| {
        let pair = token.filter(|_| hooks.enabled).zip(new);
        pair.is_some_and(|(token, new)| !proves(token, new.expose()))
    };
    match target.path.steps() {
        [Step::Key(first), Step::Key(second), Step::Key(last)]
            if first == "gateway" && second == "auth" && *last == auth.mode.to_string() =>
        {
            let now = if last == "token" { &auth.token } else { &auth.password };
            !new.zip(now.as_ref()).is_some_and(|(new, now)| new.matches(now.expose()))
        }
        [Step::Key(first), Step::Key(_)] if first == "hooks" => is_other(hooks.token.as_ref()),
        [Step::Key(first), Step::Key(_)] if first == "cron" => {
            let now = settings.cron.webhook_token.as_ref();
            new.is_some_and(|new| !now.is_some_and(|now| new.matches(now.expose())))
        }
        [Step::Key(first), Step::Key(_), Step::Index(index), Step::Key(_)] if first == "hooks" => {
            is_other(hooks.mappings.get(*index).and_then(|mapping| mapping.token.as_ref()))
        }
        _ => false,
    }
}
