//! The link that logs a browser in.

use crate::cli::client::GatewayUrl;

/// Where the gateway's own page has its login.
const LOGIN: &str = "/clawgate/login";

/// The link with this code, which is in the fragment: no browser sends that.
/// `control_ui` is the path of the Control UI, when the login is for it.
pub fn login_link(url: &GatewayUrl, control_ui: Option<&str>, code: &str) -> String {
    let s = if url.is_tls() { "s" } else { "" };
    let given = url.as_str().split_once("://").map_or("", |(_, rest)| rest);
    let given = given.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let ui = match control_ui.map(|path| path.trim_matches('/')) {
        None => String::new(),
        Some("") => "&ui=control".to_owned(),
        Some(path) => format!("&ui=control&at={path}"),
    };
    format!("http{s}://{given}{LOGIN}#code={code}{ui}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_in_the_fragment_behind_whatever_path_the_gateway_has() {
        for (given, control_ui, expected) in [
            ("ws://127.0.0.1:18789", None, "http://127.0.0.1:18789/clawgate/login#code=c"),
            ("wss://[::1]:1", Some("/b"), "https://[::1]:1/clawgate/login#code=c&ui=control&at=b"),
            (
                "https://gw.example/claw/?x=1",
                Some(""),
                "https://gw.example/claw/clawgate/login#code=c&ui=control",
            ),
        ] {
            let url = GatewayUrl::parse(given).unwrap();
            assert_eq!(login_link(&url, control_ui, "c"), expected);
        }
    }
}
