//! Our own page: files that are part of the program, the same for everybody.
//!
//! It loads nothing from elsewhere, runs no text as code and may not be framed;
//! all of it is at one path, so a proxy can put it below any other.

use std::sync::LazyLock;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use sha2::{Digest, Sha256};

use crate::gateway::Gateway;

use super::Asked;
use super::packed::{ENCODING_VARIES, of_program};

/// Where it is.
pub const PATH: &str = "/clawgate/";

/// Only what comes from here, and no code in a page's text. A browser takes
/// `'self'` for the WebSocket of this address as well.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; media-src 'self' data: blob:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file.
struct Asset {
    name: &'static str,
    /// The text as gzip (RFC 1952), which every browser takes.
    packed: &'static [u8],
    /// Names its content.
    tag: LazyLock<String>,
}

macro_rules! assets {
    ($($name:literal),+ $(,)?) => {
        [$({
            const PACKED: &[u8] =
                include_bytes!(concat!(env!("OUT_DIR"), "/packed/src/http/page/", $name));
            Asset { name: $name, packed: PACKED, tag: LazyLock::new(|| tag(PACKED)) }
        }),+]
    };
}

static ASSETS: [Asset; 66] = assets![
    "index.html",
    "login.html",
    "icon.svg",
    "css/base.css",
    "css/shell.css",
    "css/chat.css",
    "css/data.css",
    "css/markdown.css",
    "css/ops.css",
    "js/ago.js",
    "js/app.js",
    "js/approvals.js",
    "js/chat/actions.js",
    "js/chat/attachments.js",
    "js/chat/commands.js",
    "js/chat/composer.js",
    "js/chat/conversation.js",
    "js/chat/list.js",
    "js/chat/messages.js",
    "js/chat/outbox.js",
    "js/chat/pickers.js",
    "js/chat/tools.js",
    "js/chat/transcript.js",
    "js/chat/upload.js",
    "js/chat/writing.js",
    "js/clipboard.js",
    "js/config/check.js",
    "js/config/form.js",
    "js/config/json5.js",
    "js/config/merge.js",
    "js/control_device.js",
    "js/cron/complaints.js",
    "js/cron/form.js",
    "js/cron/history.js",
    "js/cron/job.js",
    "js/cron/when.js",
    "js/cron/words.js",
    "js/device.js",
    "js/devices/nodes.js",
    "js/devices/paired.js",
    "js/devices/qr.js",
    "js/devices/setup.js",
    "js/devices/waiting.js",
    "js/devices/words.js",
    "js/dom.js",
    "js/enter.js",
    "js/fields.js",
    "js/format.js",
    "js/http.js",
    "js/inline.js",
    "js/link.js",
    "js/login.js",
    "js/logs/line.js",
    "js/markdown.js",
    "js/plot.js",
    "js/sessions.js",
    "js/store.js",
    "js/toast.js",
    "js/views/chat.js",
    "js/views/config.js",
    "js/views/cron.js",
    "js/views/devices.js",
    "js/views/logs.js",
    "js/views/overview.js",
    "js/views/sessions.js",
    "js/views/usage.js",
];

fn tag(packed: &[u8]) -> String {
    format!("W/\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(packed)[..12]))
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "image/svg+xml",
    }
}

/// Whether a path is one of the page.
pub(super) fn is_its(gateway: &Gateway, path: &str) -> bool {
    is_at(gateway, path, |path| path.starts_with(PATH) || path == PATH.trim_end_matches('/'))
}

/// Whether a path is so, or what of it stands below the base path of the Control UI.
pub(super) fn is_at(gateway: &Gateway, path: &str, is: impl Fn(&str) -> bool) -> bool {
    let base = &gateway.services.settings.now().gateway.ui.base_path;
    is(path) || path.strip_prefix(base.as_str()).is_some_and(is)
}

/// The file of a path: `index.html` for the folder itself, `login.html` for where
/// links of `clawgate dashboard` lead.
pub(super) fn answer(asked: &Asked<'_>) -> Response {
    // It may be below the base path of the Control UI, too.
    let Some(name) = asked.parts.uri.path().split_once(PATH).map(|(_, name)| name) else {
        // Relative, so that it holds behind a proxy that has put a path before it.
        return (StatusCode::FOUND, [(header::LOCATION, "clawgate/")]).into_response();
    };
    let name = match name {
        "" => "index.html",
        "login" => "login.html",
        name => name,
    };
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return (StatusCode::NOT_FOUND, "Not Found\n").into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, content_type(name)),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Asked for again each time, and sent again only when it is another one:
        // files of two versions must not meet.
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, asset.tag.as_str()),
    ];
    let known = asked.parts.headers.get(header::IF_NONE_MATCH);
    if known.is_some_and(|known| known.as_bytes() == asset.tag.as_bytes()) {
        let vary = [(header::VARY, ENCODING_VARIES)];
        return (StatusCode::NOT_MODIFIED, headers, vary).into_response();
    }
    (headers, of_program(&asked.parts.headers, asset.packed)).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use crate::support::unpacked;

    use super::*;

    /// What all of it may take together on the way: it comes over a phone's
    /// connection.
    const MOST_BYTES: usize = 135_000;

    fn files(folder: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, root, found);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                found.insert(name.replace('\\', "/"));
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_together_they_are_small() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/page");
        let mut there = BTreeSet::new();
        files(&root, &root, &mut there);
        let served: BTreeSet<_> = ASSETS.iter().map(|asset| asset.name.to_owned()).collect();
        assert_eq!(served, there);
        let bytes: usize = ASSETS.iter().map(|asset| asset.packed.len()).sum();
        assert!(bytes < MOST_BYTES, "{bytes}");
    }

    /// `config set` writes the whole list, and pages of other origins would be shut out.
    #[test]
    fn who_is_told_to_add_an_origin_is_not_told_to_replace_the_others() {
        let login = ASSETS.iter().find(|asset| asset.name == "js/login.js").unwrap();
        let text = unpacked(login.packed);
        assert!(text.contains("Add this to gateway.controlUi.allowedOrigins"), "{text}");
        assert!(!text.contains("config set gateway.controlUi"), "{text}");
    }

    #[test]
    fn no_script_makes_elements_of_text() {
        let scripts = ASSETS.iter().filter(|asset| content_type(asset.name).contains("javascript"));
        let ways = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("];
        for script in scripts {
            let text = unpacked(script.packed);
            let found = ways.iter().find(|way| text.contains(**way));
            assert_eq!(found, None, "{}", script.name);
        }
    }
}
