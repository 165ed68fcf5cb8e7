//! The link that logs a browser in.

use super::Ui;
use crate::cli::client::GatewayUrl;

/// Where the gateway's own page has its login.
const LOGIN: &str = "/clawgate/login";

/// The link with this code, which is in the fragment: no browser sends that.
/// `base_path` is where the gateway says that it has its pages.
pub fn login_link(url: &GatewayUrl, base_path: &str, ui: Ui, code: &str) -> String {
    let s = if url.is_tls() { "s" } else { "" };
    let given = url.as_str().split_once("://").map_or("", |(_, rest)| rest);
    let given = given.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = given.split_once('/').unwrap_or((given, ""));
    // An address with a path says itself where the pages are.
    let base = match path.trim_matches('/') {
        "" => base_path.trim_end_matches('/').to_owned(),
        path => format!("/{path}"),
    };
    let ui = match ui {
        Ui::Own => "",
        Ui::Control => "&ui=control",
    };
    format!("http{s}://{authority}{base}{LOGIN}#code={code}{ui}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_in_the_fragment_behind_whatever_path_the_gateway_has() {
        for (given, base_path, ui, expected) in [
            ("ws://127.0.0.1:18789", "", Ui::Own, "http://127.0.0.1:18789/clawgate/login#code=c"),
            ("wss://[::1]:1", "/b", Ui::Own, "https://[::1]:1/b/clawgate/login#code=c"),
            (
                "https://gw.example/claw/?x=1",
                "/b",
                Ui::Control,
                "https://gw.example/claw/clawgate/login#code=c&ui=control",
            ),
        ] {
            let url = GatewayUrl::parse(given).unwrap();
            assert_eq!(login_link(&url, base_path, ui, "c"), expected);
        }
    }
}
