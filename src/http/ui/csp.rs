//! What a page of the Control UI may load: its own files, and the scripts that
//! are written into its `index.html`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The recorded policy, with the hashes of scripts in the page.
pub(in crate::http) fn policy(hashes: &[String]) -> String {
    let mut scripts = "script-src 'self'".to_owned();
    for hash in hashes {
        scripts.extend([" 'sha256-", hash, "'"]);
    }
    [
        "default-src 'self'",
        "base-uri 'none'",
        "object-src 'none'",
        "frame-ancestors 'none'",
        &scripts,
        "style-src 'self' 'unsafe-inline' https://fonts.googleapis.com",
        "img-src 'self' data: blob:",
        "font-src 'self' https://fonts.gstatic.com",
        "worker-src 'self'",
        "connect-src 'self' ws: wss: https://api.openai.com",
    ]
    .join("; ")
}

/// SHA-256, as base64, of each script that is written into a page.
pub(super) fn script_hashes(page: &str) -> Vec<String> {
    scripts(page).map(|script| STANDARD.encode(Sha256::digest(script))).collect()
}

/// The texts of the scripts of a page that have no `src`, as a browser reads them.
fn scripts(page: &str) -> impl Iterator<Item = &str> {
    let lower = page.to_ascii_lowercase();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let open = at + lower.get(at..)?.find("<script")?;
            let inside = open + lower.get(open..)?.find('>')? + 1;
            let end = inside + lower.get(inside..)?.find("</script")?;
            at = end;
            let (tag, text) = (lower.get(open..inside)?, page.get(inside..end)?);
            if !text.is_empty() && !has_src(tag) {
                return Some(text);
            }
        }
    })
}

fn has_src(tag: &str) -> bool {
    let names = tag.split([' ', '\t', '\n', '\r', '/', '>']);
    names.into_iter().any(|it| it == "src" || it.starts_with("src="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_in_a_page_are_those_without_a_source_in_any_spelling() {
        let page = "<SCRIPT>one</SCRIPT><script type=module src=./a.js></script>\
            <script\nsrc=\"x\">not</script><script data-src=\"x\">two</script ><script></script>\
            <script>an end is missing";
        assert_eq!(scripts(page).collect::<Vec<_>>(), ["one", "two"]);
    }

    #[test]
    fn the_policy_is_the_recorded_one() {
        assert_eq!(
            policy(&["RxCZFmTWY/yQmhYxMDn+blaCuwLzOsV/XsVb0n5EkRU=".into()]),
            "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; script-src 'self' 'sha256-RxCZFmTWY/yQmhYxMDn+blaCuwLzOsV/XsVb0n5EkRU='; style-src 'self' 'unsafe-inline' https://fonts.googleapis.com; img-src 'self' data: blob:; font-src 'self' https://fonts.gstatic.com; worker-src 'self'; connect-src 'self' ws: wss: https://api.openai.com"
        );
        assert!(policy(&[]).contains("; script-src 'self'; "));
    }
}
