//! Files that an answer shows: kept when the answer ends, read by HTTP.
//!
//! Promises: only files of the agent's workspace and of the gateway's own media are
//! kept, as for channels; what is kept has a name of our own, so no path leads
//! elsewhere; it is read by whoever may read, or with the ticket that its message
//! has. Must not: fetch what is only an address.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::channels::{last_name, not_sent, read_named};
use crate::gateway::Gateway;
use crate::http::Asked;
use crate::protocol::Scope;
use crate::protocol::hello::MAX_PAYLOAD;
use crate::sessions::{Media, MediaType, SessionKey};
use crate::store::create_private;
use crate::support::{blocking, json};

/// Where files are kept, below the state directory.
const FOLDER: &str = "media/outgoing/chat";
/// Where they are read.
pub const PATH: &str = "/api/media/:file";
const BELOW: &str = "/api/media/";
/// How long a file is kept: who looks into an older conversation has its words.
const KEPT: Duration = Duration::from_hours(30 * 24);
/// Megabytes of the largest file: what the largest message takes.
const FILE_MAX: u64 = MAX_PAYLOAD as u64 / (1024 * 1024);
/// The name of a ticket in the query.
const TICKET: &str = "ticket";

/// Keeps the files that an answer names; each as a `media` frame has it. What
/// cannot be had is left out, and told in words, as by channels.
pub async fn keep(
    gateway: &Arc<Gateway>,
    key: &SessionKey,
    named: &[String],
) -> (Vec<Value>, String) {
    let (mut files, mut told) = (Vec::new(), String::new());
    for name in named {
        match keep_one(gateway, key, name).await {
            Ok(file) => files.push(file),
            Err(error) => {
                tracing::warn!(file = name, %error, "a file of an answer is not shown");
                told.push_str(&not_sent(name, &error));
            }
        }
    }
    (files, told)
}

/// Keeps one.
///
/// # Errors
/// Why it cannot be had, in words that name no place of this machine.
async fn keep_one(gateway: &Arc<Gateway>, key: &SessionKey, named: &str) -> Result<Value, String> {
    let services = &gateway.services;
    let shown = last_name(named);
    if named.starts_with("https://") || named.starts_with("http://") {
        // A link: nothing is loaded from elsewhere because a model says so.
        let octets = "application/octet-stream";
        return Ok(json!({"kind": "file", "name": shown, "url": named, "mime": octets,
            "content_type": octets}));
    }
    let (settings, agent) = (services.settings.now(), services.runs.parts().agent_of(key));
    let path = named.strip_prefix("file://").unwrap_or(named).to_owned();
    let (given, id) = (shown.clone(), services.ids.uuid());
    let keeping = blocking(move || {
        let bytes = read_named(&settings, &agent, &path, FILE_MAX);
        let bytes = bytes.map_err(|error| error.to_string())?;
        let kind = MediaType::of(&bytes, "");
        let folder = settings.paths.state_dir.join(FOLDER);
        let name = Media::name(Some(&given), kind.extension, &id);
        create_private(&folder.join(&name), &bytes).map_err(|error| {
            tracing::error!(%error, "a file of an answer cannot be kept");
            "it cannot be kept".to_owned()
        })?;
        Ok::<_, String>((name, kind.mime))
    });
    let (name, mime) = keeping.await.map_err(|error| error.to_string())??;
    let ticket = gateway.tickets.issue(&source(&name), services.clock.now_ms());
    let ticket = ticket.map(|(ticket, _)| format!("?{TICKET}={ticket}")).unwrap_or_default();
    let url = format!("{BELOW}{}{ticket}", escaped(&name));
    Ok(json!({"kind": kind_of(mime), "name": shown, "url": url, "mime": mime,
        "content_type": mime}))
}

/// What a ticket is for.
fn source(name: &str) -> String {
    format!("chat:{name}")
}

fn escaped(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn kind_of(mime: &str) -> &str {
    match mime.split('/').next() {
        Some(kind @ ("image" | "audio" | "video")) => kind,
        _ => "file",
    }
}

/// Removes what has been kept for long enough in a state directory. What cannot be
/// removed stops nothing, and is in the log. Blocks.
pub fn sweep(state_dir: &Path) {
    let folder = state_dir.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) => return stays(&folder, &error),
    };
    for entry in entries.flatten() {
        if let Err(error) = remove_old(&entry) {
            stays(&entry.path(), &error);
        }
    }
}

fn remove_old(entry: &fs::DirEntry) -> io::Result<()> {
    let facts = entry.metadata()?;
    if !facts.is_dir() && facts.modified()?.elapsed().unwrap_or_default() > KEPT {
        fs::remove_file(entry.path())?;
    }
    Ok(())
}

/// Tells what could not be looked into or removed, unless it is gone.
fn stays(path: &Path, error: &io::Error) {
    if error.kind() != io::ErrorKind::NotFound {
        tracing::warn!(path = %path.display(), %error, "old files of answers may stay");
    }
}

/// `GET /api/media/<file>`.
pub(super) async fn answer(asked: Asked<'_>) -> Response {
    let (name, manner) = (asked.path.get("file").to_owned(), asked.manner);
    // Two dots inside of a name lead nowhere.
    if name == ".." || name.contains(['/', '\\', '\0']) {
        return manner.forbidden("Forbidden");
    }
    let now = asked.gateway.services.clock.now_ms();
    let ticket = asked.query(TICKET);
    let has_ticket =
        ticket.is_some_and(|it| asked.gateway.tickets.is_good(&it, &source(&name), now));
    if !has_ticket && let Err(refusal) = asked.let_in(Scope::Read).await {
        return refusal;
    }
    let folder: PathBuf = asked.gateway.services.settings.now().paths.state_dir.join(FOLDER);
    let file = folder.join(&name);
    match blocking(move || std::fs::read(file)).await {
        Ok(Ok(bytes)) => shown(bytes),
        _ => manner.error(StatusCode::NOT_FOUND, "Not found"),
    }
}

/// Pictures, sound and video are shown; everything else is saved, so that no file
/// is a page.
fn shown(bytes: Vec<u8>) -> Response {
    let mime = MediaType::of(&bytes, "").mime;
    let is_shown = kind_of(mime) != "file" && mime != "image/svg+xml";
    let (kind, place) =
        if is_shown { (mime, "inline") } else { ("application/octet-stream", "attachment") };
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_DISPOSITION, place),
        (CACHE_CONTROL, "private, max-age=3600"),
    ];
    (headers, bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_goes_and_neither_a_folder_nor_a_new_file_does() {
        let state = tempfile::tempdir().unwrap();
        sweep(state.path());
        let folder = state.path().join(FOLDER);
        fs::create_dir_all(folder.join("folder")).unwrap();
        for name in ["a", "b", "folder/c", "new"] {
            fs::write(folder.join(name), "x").unwrap();
        }
        for name in ["a", "b", "folder/c", "folder"] {
            let old = fs::File::open(folder.join(name)).unwrap();
            old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        sweep(state.path());
        let mut left: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["folder", "new"]);
        assert!(folder.join("folder/c").exists());
    }

    #[test]
    fn a_name_stays_one_segment_of_an_address() {
        assert_eq!(escaped("a---b.png"), "a%2D%2D%2Db%2Epng");
        assert_eq!(escaped("grün/x"), "gr%C3%BCn%2Fx");
    }

    #[test]
    fn what_is_no_picture_sound_or_video_is_a_file() {
        for (mime, kind) in [
            ("image/png", "image"),
            ("audio/mpeg", "audio"),
            ("video/mp4", "video"),
            ("text/plain", "file"),
        ] {
            assert_eq!(kind_of(mime), kind);
        }
    }
}
