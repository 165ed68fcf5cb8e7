//! Under which name Tailscale Serve brings this machine's gateway to a tailnet.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::cli::Surroundings;
use crate::cli::client::GatewayUrl;

/// It asks a daemon on this machine; one that hangs must not hold the link back.
const LIMIT: Duration = Duration::from_secs(2);

/// The address at which the tailnet sees the gateway at `url`, if the
/// configuration speaks of Tailscale and Tailscale Serve leads there.
pub async fn served_at(around: &Surroundings, url: &GatewayUrl) -> Option<GatewayUrl> {
    if !around.allows_tailscale || !url.is_loopback() {
        return None;
    }
    let asked = Command::new("tailscale")
        .args(["serve", "status", "--json"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LIMIT, asked).await.ok()?.ok()?;
    name_of(&serde_json::from_slice(&output.stdout).ok()?, url.port())
}

/// The site whose root leads to this port.
fn name_of(status: &Value, port: u16) -> Option<GatewayUrl> {
    let leads_here = |site: &Value| {
        let proxy = site["Handlers"]["/"]["Proxy"].as_str().unwrap_or_default();
        GatewayUrl::parse(proxy).is_ok_and(|to| to.is_loopback() && to.port() == port)
    };
    let sites = status["Web"].as_object()?;
    let (name, _) = sites.iter().find(|(_, site)| leads_here(site))?;
    GatewayUrl::parse(&format!("https://{name}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn the_site_is_the_one_whose_root_leads_to_the_gateway() {
        let to = |proxy: &str| json!({"Handlers": {"/": {"Proxy": proxy}}});
        let status = json!({"TCP": {"443": {"HTTPS": true}}, "Web": {
            "box.tail1a2b.ts.net:8443": to("http://127.0.0.1:3000"),
            "box.tail1a2b.ts.net:443": to("http://127.0.0.1:18789"),
        }});
        let found = name_of(&status, 18789).map(|url| url.to_string());
        assert_eq!(found.as_deref(), Some("wss://box.tail1a2b.ts.net"));
        assert_eq!(name_of(&status, 18790), None);
        assert_eq!(name_of(&json!({}), 18789), None);
        let elsewhere = json!({"Web": {"box.ts.net:443": to("http://10.0.0.2:18789")}});
        assert_eq!(name_of(&elsewhere, 18789), None);
    }
}
