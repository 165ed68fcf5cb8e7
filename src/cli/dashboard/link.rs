//! The link that logs a browser in.

use crate::cli::client::GatewayUrl;

/// Where the gateway's own page has its login.
const LOGIN: &str = "/clawgate/login";

/// The link with this code, which is in the fragment: no browser sends that.
/// `control_ui` is the base path of the Control UI, when the login is for it; our
/// own page is below that, too.
pub fn login_link(url: &GatewayUrl, control_ui: Option<&str>, code: &str) -> String {
    let s = if url.is_tls() { "s" } else { "" };
    let given = url.as_str().split_once("://").map_or("", |(_, rest)| rest);
    let given = given.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let base = control_ui.unwrap_or_default().trim_end_matches('/');
    // Who names an address with the path means the same place.
    let base = if given.ends_with(base) { "" } else { base };
    let ui = if control_ui.is_some() { "&ui=control" } else { "" };
    format!("http{s}://{given}{base}{LOGIN}#code={code}{ui}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_in_the_fragment_behind_whatever_path_the_gateway_has() {
        for (given, control_ui, expected) in [
            ("ws://127.0.0.1:18789", None, "http://127.0.0.1:18789/clawgate/login#code=c"),
            ("wss://[::1]:1", Some("/b"), "https://[::1]:1/b/clawgate/login#code=c&ui=control"),
            (
                "https://gw.example/claw/?x=1",
                Some(""),
                "https://gw.example/claw/clawgate/login#code=c&ui=control",
            ),
            (
                "https://gw.example/b/",
                Some("/b"),
                "https://gw.example/b/clawgate/login#code=c&ui=control",
            ),
        ] {
            let url = GatewayUrl::parse(given).unwrap();
            assert_eq!(login_link(&url, control_ui, "c"), expected);
        }
    }
}
