//! What a file is, by its first bytes.

/// What is known of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaType {
    /// Such as `image/png`.
    pub mime: &'static str,
    /// Such as `png`.
    pub extension: &'static str,
}

const fn known(mime: &'static str, extension: &'static str) -> MediaType {
    MediaType { mime, extension }
}

/// Pictures that models take.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Types that clients claim, and the extension that goes with them.
const CLAIMED: &[MediaType] = &[
    known("text/plain", "txt"),
    known("text/markdown", "md"),
    known("text/csv", "csv"),
    known("text/html", "html"),
    known("text/css", "css"),
    known("text/xml", "xml"),
    known("text/calendar", "ics"),
    known("application/json", "json"),
    known("application/xml", "xml"),
    known("application/yaml", "yaml"),
    known("application/pdf", "pdf"),
    known("application/zip", "zip"),
    known("application/gzip", "gz"),
    known("application/msword", "doc"),
    known("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    known("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    known("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    known("audio/mpeg", "mp3"),
    known("audio/ogg", "ogg"),
    known("audio/wav", "wav"),
    known("audio/mp4", "m4a"),
    known("video/mp4", "mp4"),
    known("video/webm", "webm"),
];

/// What nobody knows.
const BINARY: MediaType = known("application/octet-stream", "bin");

/// A beginning that is known: where, which bytes, which type.
type Magic = (usize, &'static [u8], MediaType);

const MAGIC: &[Magic] = &[
    (0, b"\x89PNG\r\n\x1a\n", known("image/png", "png")),
    (0, b"\xff\xd8\xff", known("image/jpeg", "jpg")),
    (0, b"GIF87a", known("image/gif", "gif")),
    (0, b"GIF89a", known("image/gif", "gif")),
    (8, b"WEBP", known("image/webp", "webp")),
    (8, b"WAVE", known("audio/wav", "wav")),
    (4, b"ftypheic", known("image/heic", "heic")),
    (4, b"ftypheix", known("image/heic", "heic")),
    (4, b"ftypmif1", known("image/heif", "heif")),
    (4, b"ftypavif", known("image/avif", "avif")),
    (4, b"ftypM4A", known("audio/mp4", "m4a")),
    (4, b"ftyp", known("video/mp4", "mp4")),
    (0, b"II*\0", known("image/tiff", "tiff")),
    (0, b"MM\0*", known("image/tiff", "tiff")),
    (0, b"BM", known("image/bmp", "bmp")),
    (0, b"%PDF-", known("application/pdf", "pdf")),
    (0, b"\x1f\x8b", known("application/gzip", "gz")),
    (0, b"OggS", known("audio/ogg", "ogg")),
    (0, b"ID3", known("audio/mpeg", "mp3")),
    (0, b"\x1a\x45\xdf\xa3", known("video/webm", "webm")),
];

impl MediaType {
    /// The type of a file: what its bytes say, then what was claimed. A claim
    /// to be a picture counts only when the bytes say so too.
    pub fn of(bytes: &[u8], claimed: &str) -> Self {
        let claimed = claimed.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if let Some(found) = sniff(bytes) {
            return found;
        }
        let found = CLAIMED.iter().find(|known| known.mime == claimed);
        match found {
            Some(known) => *known,
            None if std::str::from_utf8(bytes).is_ok() => known("text/plain", "txt"),
            None => BINARY,
        }
    }

    /// The type of a file of which this is the beginning: it may end within a
    /// character.
    pub fn of_beginning(bytes: &[u8], claimed: &str) -> Self {
        let whole = match std::str::from_utf8(bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        };
        Self::of(bytes.get(..whole).unwrap_or(bytes), claimed)
    }

    /// The type that was found once and written down.
    pub fn named(mime: &str) -> Self {
        let found = CLAIMED.iter().chain(MAGIC.iter().map(|(_, _, found)| found));
        found.into_iter().find(|known| known.mime == mime).copied().unwrap_or(BINARY)
    }

    /// Whether models can look at it.
    pub fn is_picture(self) -> bool {
        is_picture(self.mime)
    }
}

/// Whether models can look at files of this type.
pub(super) fn is_picture(mime: &str) -> bool {
    PICTURES.contains(&mime)
}

fn sniff(bytes: &[u8]) -> Option<MediaType> {
    let fits = |(at, magic, _): &&Magic| {
        bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic))
            // Both kinds with a mark at 8 are RIFF files.
            && (*at != 8 || bytes.starts_with(b"RIFF"))
    };
    MAGIC.iter().find(fits).map(|(_, _, found)| *found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_may_end_within_a_character_and_a_type_is_found_again_by_its_name() {
        let text = "ääää".as_bytes();
        assert_eq!(MediaType::of_beginning(&text[..5], "").mime, "text/plain");
        assert_eq!(MediaType::of_beginning(b"\xff\xff", "").mime, "application/octet-stream");
        let names = CLAIMED.iter().chain(MAGIC.iter().map(|(_, _, known)| known)).chain([&BINARY]);
        for kind in names {
            assert_eq!(MediaType::named(kind.mime).mime, kind.mime);
        }
    }

    #[test]
    fn bytes_count_more_than_claims() {
        let png = b"\x89PNG\r\n\x1a\n____";
        let mime = |bytes: &[u8], claimed| MediaType::of(bytes, claimed).mime;
        assert_eq!(mime(png, "image/jpeg"), "image/png");
        assert_eq!(mime(png, "text/plain"), "image/png");
        assert_eq!(mime(b"hello", "image/png"), "text/plain");
        assert_eq!(mime(b"\xff\xfe\x00", "image/png"), "application/octet-stream");
        assert_eq!(mime(b"{}", "application/json; charset=utf-8"), "application/json");
        assert_eq!(mime(b"RIFF____WEBPVP8 ", ""), "image/webp");
        assert_eq!(mime(b"____WEBPVP8 ....", ""), "text/plain");
        assert_eq!(mime(b"PK\x03\x04\xff", "application/zip"), "application/zip");
    }

    #[test]
    fn models_take_four_kinds_of_pictures() {
        let picture = |bytes: &[u8]| MediaType::of(bytes, "").is_picture();
        assert!(picture(b"GIF89a...") && picture(b"\xff\xd8\xff\xe0"));
        assert!(!picture(b"____ftypheic") && !picture(b"BM______"));
    }
}
