//! Which paths are the Control UI's, and which of its files they mean.

use crate::config::UiSettings;

/// First parts of paths that are never the UI's, as in the original. Clients of
/// APIs must not take its page for an answer.
const NEVER: [&str; 9] =
    ["api", "plugins", "ui", "clawgate", "health", "healthz", "ready", "readyz", "hooks"];
/// Most letters of an extension.
const MAX_EXTENSION: usize = 11;

/// What a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meant<'a> {
    /// The folder itself is named without its slash.
    Base,
    /// What stands below the base path; begins with a slash.
    Below(&'a str),
}

/// What a path means; none when it is not the UI's.
pub(super) fn meant<'a>(settings: &UiSettings, path: &'a str) -> Option<Meant<'a>> {
    if !settings.enabled {
        return None;
    }
    if settings.base_path.is_empty() {
        let first = path.strip_prefix('/')?.split('/').next().unwrap_or_default();
        let is_ours = NEVER.contains(&first) || first.starts_with("__openclaw");
        return (!is_ours).then_some(Meant::Below(path));
    }
    match path.strip_prefix(&settings.base_path)? {
        "" => Some(Meant::Base),
        below if below.starts_with('/') => Some(Meant::Below(below)),
        _ => None,
    }
}

/// What stands below the base path in a path, with its slash.
pub(in crate::http) fn below<'a>(base_path: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(base_path).filter(|below| below.starts_with('/'))
}

/// A file of the folder, and what is answered when it is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its path in the folder; empty for the page.
    pub name: String,
    /// Whether the page is answered then, because the path is one of its views.
    pub or_page: bool,
}

/// The file that is meant by what stands below the base path. Nothing is decoded:
/// no file of the UI has a name that needs it. None for hidden files.
pub(super) fn wanted(below: &str) -> Option<Wanted> {
    // Relative links of a view such as /a/b lead to /a/assets.
    let below = below.find("/assets/").map_or(below, |at| &below[at..]);
    let mut parts: Vec<&str> = Vec::new();
    for part in below.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            hidden if hidden.starts_with('.') => return None,
            part => parts.push(part),
        }
    }
    let name = if below.ends_with('/') { String::new() } else { parts.join("/") };
    let or_page = parts.last().is_none_or(|last| !has_extension(last));
    Some(Wanted { name, or_page })
}

/// Whether a name is that of a file: `app.js` is, `v1.2` and `a.html` may be views.
fn has_extension(name: &str) -> bool {
    let Some((_, extension)) = name.rsplit_once('.') else { return false };
    !extension.eq_ignore_ascii_case("html")
        && extension.len() <= MAX_EXTENSION
        && extension.chars().all(|it| it.is_ascii_alphanumeric())
        && extension.chars().any(|it| it.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EmbedSandbox;

    fn settings(base_path: &str) -> UiSettings {
        UiSettings {
            enabled: true,
            base_path: base_path.into(),
            root: "/nowhere".into(),
            embed_sandbox: EmbedSandbox::Scripts,
            allow_external_embed_urls: false,
            chat_message_max_width: None,
        }
    }

    #[test]
    fn paths_of_apis_are_never_the_ui() {
        let root = settings("");
        for own in ["/", "/chat", "/index.html", "/metrics", "/apiary", "/v1/models"] {
            assert_eq!(meant(&root, own), Some(Meant::Below(own)));
        }
        for other in [
            "/api",
            "/api/x",
            "/plugins/x",
            "/ui",
            "/healthz",
            "/clawgate/",
            "*",
            "",
            "/__openclaw__/canvas/",
            "/__openclaw/x",
            "/hooks/wake",
        ] {
            assert_eq!(meant(&root, other), None, "{other}");
        }
        assert_eq!(meant(&UiSettings { enabled: false, ..root }, "/"), None);
    }

    #[test]
    fn below_a_base_path_is_only_what_is_below_it() {
        let below = settings("/openclaw");
        assert_eq!(meant(&below, "/openclaw"), Some(Meant::Base));
        assert_eq!(meant(&below, "/openclaw/"), Some(Meant::Below("/")));
        assert_eq!(meant(&below, "/openclaw/api/x"), Some(Meant::Below("/api/x")));
        for other in ["/", "/chat", "/openclawx", "/openclaw2/"] {
            assert_eq!(meant(&below, other), None, "{other}");
        }
    }

    #[test]
    fn a_path_means_a_file_or_a_view_and_never_leads_up() {
        let all = |below: &str| wanted(below).map(|it| (it.name, it.or_page));
        let file = |name: &str| Some((name.to_owned(), false));
        let view = |name: &str| Some((name.to_owned(), true));
        assert_eq!(all("/"), view(""));
        assert_eq!(all("/chat"), view("chat"));
        assert_eq!(all("/nothing/here/"), view(""));
        assert_eq!(all("/index.html"), view("index.html"));
        assert_eq!(all("/favicon.svg"), file("favicon.svg"));
        assert_eq!(all("/assets/a-1.js"), file("assets/a-1.js"));
        assert_eq!(all("/nothing/assets/a-1.js"), file("assets/a-1.js"));
        assert_eq!(all("/release/v1.2"), view("release/v1.2"));
        assert_eq!(all("/../../etc/passwd"), view("etc/passwd"));
        assert_eq!(all("/../openclaw.json"), file("openclaw.json"));
        assert_eq!(all("/%2e%2e/openclaw.json"), file("%2e%2e/openclaw.json"));
        for hidden in ["/.env", "/.git/config", "/assets/.x.js", "/..../x"] {
            assert_eq!(all(hidden), None, "{hidden}");
        }
    }
}
