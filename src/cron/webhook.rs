//! Answers on their way to a web server.

use std::time::Duration;

use serde_json::Value;

use super::service::Cron;

/// A server that is slower than this is not waited for.
const LIMIT: Duration = Duration::from_secs(30);

impl Cron {
    /// Posts what happened as JSON. Where may be asked is said by
    /// `tools.web.fetch.ssrfPolicy`, like for all that goes out.
    ///
    /// # Errors
    /// Why the server does not have it.
    pub(super) async fn post(&self, url: &str, payload: &Value) -> Result<(), String> {
        let settings = self.parts.settings.now();
        let token = settings.cron.webhook_token.as_ref();
        let posted = self.client.now().post(url.trim(), token, payload.to_string(), LIMIT).await;
        let status = posted.map_err(|error| error.to_string())?;
        if status.is_success() {
            return Ok(());
        }
        Err(format!("the web server answered {status}"))
    }
}
