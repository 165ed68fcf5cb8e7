//! `/__openclaw__/assistant-media`: files of this machine that a chat shows.
//!
//! Promises: only files of the folders for them, and of these no hidden ones,
//! wherever links lead, nor those that are the gateway's own by another name;
//! nothing is fetched, whatever address is given; a file is shown as a picture or is
//! saved, and is never a page.

use std::io;
use std::path::{Component, Path, PathBuf};

use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::agent::reach::Guard;
use crate::config::Settings;
use crate::gateway::Gateway;
use crate::handlers::uploads::INBOUND;
use crate::support::json;

use super::super::caller::reader;
use super::super::json_answer;
use super::super::not_found;
use super::send::{Content, send};
use super::{ASK_AGAIN, Asked, files, headers, mime, query, runtime};

/// Where it is, below the base path.
pub(in crate::http) const PATH: &str = "/__openclaw__/assistant-media";
/// The folder that all users of the machine can make.
pub(super) const SHARED: &str = "/tmp/openclaw";

pub(in crate::http) async fn answer(asked: Asked<'_>) -> Response {
    let Asked { gateway, wire, peer, parts, .. } = asked;
    let source = query(&parts.uri, "source").map(|source| source.trim().to_owned());
    let Some(source) = source.filter(|source| !source.is_empty()) else {
        return headers::of_ui(not_found());
    };
    let is_meta = query(&parts.uri, "meta").as_deref() == Some("1");
    let now = gateway.services.clock.now_ms();
    let ticket = query(&parts.uri, "mediaTicket").filter(|_| !is_meta);
    let has_ticket = ticket.is_some_and(|it| gateway.tickets.is_good(&it, &source, now));
    if has_ticket {
        wire.trust();
    } else if let Err(refusal) = reader(gateway, wire, peer, &parts.headers).await {
        return headers::of_ui(refusal);
    }
    let settings = gateway.services.settings.now();
    let found = find(&settings, &source).await;
    headers::of_ui(match found {
        Err(why) if is_meta => told(&why.told()),
        Err(_) => not_found(),
        Ok(_) if is_meta => told(&available(gateway, &source, now)),
        Ok(found) => sent(found, parts).await.unwrap_or_else(|_| not_found()),
    })
}

fn told(body: &Value) -> Response {
    ([(CACHE_CONTROL, ASK_AGAIN)], json_answer(StatusCode::OK, body)).into_response()
}

fn available(gateway: &Gateway, source: &str, now_ms: u64) -> Value {
    let mut body = json!({"available": true});
    if let Some((ticket, exp)) = gateway.tickets.issue(source, now_ms) {
        let ends = i64::try_from(exp).ok().and_then(|exp| Timestamp::from_millisecond(exp).ok());
        body["mediaTicket"] = json!(ticket);
        body["mediaTicketExpiresAt"] = json!(ends.map(|ends| format!("{ends:.3}")));
    }
    body
}

/// Why a file is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Outside,
    Missing,
    NoFile,
    Invalid,
}

impl Why {
    fn told(self) -> Value {
        let (code, reason) = match self {
            Self::Outside => ("outside-allowed-folders", "Outside allowed folders"),
            Self::Missing => ("file-not-found", "File not found"),
            Self::NoFile => ("not-a-file", "Not a file"),
            Self::Invalid => ("invalid-file", "Invalid file"),
        };
        json!({"available": false, "code": code, "reason": reason})
    }
}

struct Found {
    opened: files::Opened,
    name: String,
}

async fn find(settings: &Settings, source: &str) -> Result<Found, Why> {
    let path = path_of(settings, source).ok_or(Why::Outside)?;
    let roots = runtime::media_roots(settings);
    let guard = Guard::new(settings).opening(roots.clone());
    let looked = files::blocking(move || Ok(look(&path, &roots, &guard))).await;
    looked.unwrap_or(Err(Why::Missing))
}

/// The absolute path that is meant; none for what is no path of this machine.
fn path_of(settings: &Settings, source: &str) -> Option<PathBuf> {
    if let Some(name) = source.strip_prefix(INBOUND) {
        let name = percent_decode_str(name).decode_utf8().ok()?;
        let is_name = !name.is_empty() && !name.contains(['/', '\\']) && name != "..";
        let inbound = || settings.paths.state_dir.join("media/inbound").join(&*name);
        return is_name.then(inbound);
    }
    if let Some(rest) = source.strip_prefix("file://") {
        // A host would be another machine.
        let rest = rest.strip_prefix("localhost").unwrap_or(rest);
        let path = percent_decode_str(rest).decode_utf8().ok()?;
        return path.starts_with('/').then(|| PathBuf::from(&*path));
    }
    if source.starts_with("~/") {
        return settings.paths.expand(source).ok();
    }
    source.starts_with('/').then(|| PathBuf::from(source))
}

/// Opens a file in one of the folders. What is outside is not looked at, so that
/// nobody learns what is there.
fn look(path: &Path, roots: &[PathBuf], guard: &Guard) -> Result<Found, Why> {
    let is_plain = |it: Component<'_>| matches!(it, Component::RootDir | Component::Normal(_));
    if !path.components().all(is_plain) {
        return Err(Why::Outside);
    }
    let within = |root: &PathBuf| {
        let real = std::fs::canonicalize(root).ok();
        let rest = path.strip_prefix(root).ok();
        let rest = rest.or_else(|| path.strip_prefix(real.as_ref()?).ok())?;
        (!rest.as_os_str().is_empty()).then(|| (root.clone(), rest.to_owned()))
    };
    let (root, rest) = roots.iter().find_map(within).ok_or(Why::Outside)?;
    let name = rest.to_str().ok_or(Why::Invalid)?;
    if name.split('/').any(|part| part.starts_with('.')) || !is_own(&root) {
        return Err(Why::Invalid);
    }
    let opened = files::open(&root, name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Why::Missing,
        io::ErrorKind::IsADirectory => Why::NoFile,
        _ => Why::Invalid,
    })?;
    let real = std::fs::canonicalize(root.join(name)).map_err(|_| Why::Invalid)?;
    guard.judge_opened(&opened, &real, None).map_err(|_| Why::Invalid)?;
    let name = name.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(Found { opened, name })
}

/// Whether nobody else has made the folder, where anybody could.
fn is_own(root: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let is_ours = |facts: std::fs::Metadata| facts.uid() == rustix::process::geteuid().as_raw();
    root != Path::new(SHARED) || std::fs::symlink_metadata(root).is_ok_and(is_ours)
}

async fn sent(found: Found, parts: &Parts) -> io::Result<Response> {
    let kind = mime::of_media(&found.name);
    let shown = if kind.is_some() { "inline" } else { "attachment" };
    let fixed = [
        (CONTENT_TYPE, kind.unwrap_or("application/octet-stream")),
        (CACHE_CONTROL, ASK_AGAIN),
        (CONTENT_DISPOSITION, shown),
    ];
    let fixed = fixed.map(|(name, value)| (name, HeaderValue::from_static(value)));
    send(Content::File(found.opened), parts, fixed).await
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::{Env, Overrides, load};

    #[test]
    fn another_name_of_the_gateways_own_files_is_not_shown() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::fixed([], home.path().to_str().unwrap());
        let overrides = Overrides { read_only: true, ..Overrides::default() };
        let settings = load(&env, &overrides).unwrap();
        let state = &settings.paths.state_dir;
        for folder in ["media/outbound", "credentials", "workspace"] {
            fs::create_dir_all(state.join(folder)).unwrap();
        }
        for own in ["openclaw.json", "gateway-token", "credentials/oauth.json"] {
            fs::write(state.join(own), "canary").unwrap();
        }
        fs::write(state.join("media/outbound/a.png"), "x").unwrap();
        for root in [state.join("media"), state.join("workspace"), home.path().to_owned()] {
            let roots = [root.clone()];
            let guard = Guard::new(&settings).opening(roots.clone());
            let looked = |path: &Path| look(path, &roots, &guard).map(|found| found.name);
            let name = root.join("name.txt");
            for own in ["openclaw.json", "gateway-token", "credentials/oauth.json"] {
                fs::hard_link(state.join(own), &name).unwrap();
                assert_eq!(looked(&name), Err(Why::Invalid), "{own}");
                fs::remove_file(&name).unwrap();
                // One that stays below the folder, if that is around the state directory.
                let target = state.join(own);
                symlink(target.strip_prefix(&root).unwrap_or(&target), &name).unwrap();
                assert_eq!(looked(&name), Err(Why::Invalid), "{own}");
                fs::remove_file(&name).unwrap();
            }
        }
        let roots = [state.join("media")];
        let guard = Guard::new(&settings).opening(roots.clone());
        let shown = look(&state.join("media/outbound/a.png"), &roots, &guard);
        assert_eq!(shown.map(|found| found.name), Ok("a.png".into()));
    }

    #[test]
    fn only_files_of_the_folders_are_found_and_nothing_is_told_of_others() {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("in"), place.path().join("out"));
        for folder in [inside.join("a"), outside.clone(), inside.join(".git")] {
            fs::create_dir_all(folder).unwrap();
        }
        for file in [inside.join("a/b.png"), outside.join("secret"), inside.join(".git/config")] {
            fs::write(file, "x").unwrap();
        }
        symlink(outside.join("secret"), inside.join("link.png")).unwrap();
        symlink(&inside, place.path().join("alias")).unwrap();
        let roots = [place.path().join("alias")];
        let env = Env::fixed([], place.path().to_str().unwrap());
        let overrides = Overrides { read_only: true, ..Overrides::default() };
        let guard = Guard::new(&load(&env, &overrides).unwrap());
        let looked = |path: PathBuf| look(&path, &roots, &guard).map(|found| found.name);
        assert_eq!(looked(inside.join("a/b.png")), Ok("b.png".into()));
        assert_eq!(looked(place.path().join("alias/a/b.png")), Ok("b.png".into()));
        assert_eq!(looked(inside.join("a/none.png")), Err(Why::Missing));
        assert_eq!(looked(inside.join("a")), Err(Why::NoFile));
        assert_eq!(looked(inside.join("link.png")), Err(Why::Invalid));
        assert_eq!(looked(inside.join(".git/config")), Err(Why::Invalid));
        for other in [outside.join("secret"), outside.join("none"), inside.join("../out/secret")] {
            assert_eq!(looked(other.clone()), Err(Why::Outside), "{}", other.display());
        }
        assert_eq!(looked(inside), Err(Why::Outside), "a folder is no file in itself");
    }
}
