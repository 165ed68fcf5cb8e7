//! `GET /api/media/<file>`: files that the agent gave out.
//!
//! The last part of the path is the file: its absolute path, or the name of one in
//! the folder of what came and went with messages. Promises: the same files as the
//! Control UI shows, and no others.

use axum::http::StatusCode;
use axum::response::Response;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::shut;
use crate::http::{Asked, shown_media};

/// The path of the route, before the file.
const FOLDER: &str = "/api/media/";
/// What may stand in an address as it is.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The address of a file, by its absolute path.
pub fn address(path: &str) -> String {
    format!("{FOLDER}{}", utf8_percent_encode(path, ESCAPED))
}

pub(super) async fn answer(asked: Asked<'_>) -> Response {
    if let Some(shut) = shut(&asked) {
        return shut;
    }
    let file = asked.path.get("file");
    if file.split(['/', '\\']).any(|part| part == "..") {
        return asked.manner.forbidden("Forbidden");
    }
    let settings = asked.gateway.services.settings.now();
    let mut sources = vec![file.to_owned()];
    if !file.contains('/') {
        let folder = settings.paths.state_dir.join("media");
        sources = ["outgoing", "inbound"]
            .iter()
            .map(|name| folder.join(name).join(file).display().to_string())
            .collect();
    }
    for source in sources {
        if let Some(shown) = shown_media(&settings, &source, asked.parts).await {
            return shown;
        }
    }
    asked.manner.error(StatusCode::NOT_FOUND, "File not found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_part_of_a_path() {
        assert_eq!(address("/w/a b.png"), "/api/media/%2Fw%2Fa%20b.png");
    }
}
