//! `read`: a file, or a part of it.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::window::{self, BYTES_MAX, Cut, LINES_MAX, Window, WindowError};
use super::{PICTURE_MAX, blocking, count, reach_to_read, text};
use crate::agent::reach::{Place, Reach};
use crate::agent::tools::{Tool, ToolContext, ToolKind, ToolOutput};
use crate::protocol::message::ContentBlock;
use crate::providers::{InputKind, ModelInfo, PictureSize, ToolSpec, picture_fits};
use crate::sessions::MediaType;
use crate::support::{BoxFuture, json};

/// Bytes that tell what a file is.
const HEAD: u64 = 64;
/// The type of what is no text and nothing that is known.
const BINARY: &str = "application/octet-stream";
/// What is said instead of a picture that no provider takes.
const TOO_LARGE: &str = "\n[Image omitted: it is above the inline image size limit. Make a \
    smaller copy and read that.]";

/// The tool.
pub struct Read;

impl Tool for Read {
    fn name(&self) -> &'static str {
        "read"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Read the contents of a file. Supports text files and images (jpg, png, \
                gif, webp). Images are sent as attachments. For text files, output is truncated \
                to 2000 lines or 50KB (whichever is hit first). Use offset/limit for large \
                files. When you need the full file, continue with offset until complete."
                .into(),
            parameters: json!({
                "type": "object",
                "required": ["path"],
                "properties": {
                    "path": {
                        "type": "string",
                        "description": "Path to the file to read (relative or absolute)",
                    },
                    "offset": {
                        "type": "number",
                        "description": "Line number to start reading from (1-indexed)",
                    },
                    "limit": {
                        "type": "number",
                        "description": "Maximum number of lines to read",
                    },
                },
            }),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let path = arguments.get("path")?.as_str()?;
        let offset = count(arguments, "offset").map(|offset| offset.max(1));
        let limit = count(arguments, "limit").map(|limit| limit.max(1));
        let unit = if limit == Some(1) { "line" } else { "lines" };
        Some(match (offset, limit) {
            (Some(from), Some(limit)) => {
                format!("{unit} {from}-{} from {path}", from.saturating_add(limit - 1))
            }
            (Some(from), None) => format!("from line {from} in {path}"),
            (None, Some(limit)) => format!("first {limit} {unit} of {path}"),
            (None, None) => format!("from {path}"),
        })
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let sees = cx.model.as_ref().is_none_or(|model| takes_pictures(model));
            let ask = Ask {
                path: text(arguments, "path").to_owned(),
                offset: count(arguments, "offset"),
                limit: count(arguments, "limit"),
                sees,
            };
            let reach = reach_to_read(cx, &ask.path).await;
            blocking("read", move || ask.answer(&reach)).await.unwrap_or_else(|failed| failed)
        })
    }
}

/// Whether a model looks at pictures.
pub fn takes_pictures(model: &ModelInfo) -> bool {
    model.input.contains(&InputKind::Image)
}

/// What is to be read.
struct Ask {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
    /// Whether the model looks at pictures.
    sees: bool,
}

impl Ask {
    fn answer(&self, reach: &Reach) -> Result<ToolOutput, String> {
        let place = reach.find(&self.path).map_err(|error| error.to_string())?;
        let (mut file, size) = place.open().map_err(|error| error.to_string())?;
        let mut head = Vec::new();
        let looked = (&mut file).take(HEAD).read_to_end(&mut head).and_then(|_| file.rewind());
        looked.map_err(|error| error.to_string())?;
        let kind = MediaType::of(&head, "");
        if kind.is_picture() {
            return self.picture(&place, kind, size);
        }
        self.lines(file, kind, size)
    }

    fn picture(&self, place: &Place, kind: MediaType, size: u64) -> Result<ToolOutput, String> {
        let mut note = format!("Read image file [{}]", kind.mime);
        // Three bytes are four in base64.
        if size.div_ceil(3).saturating_mul(4) > PICTURE_MAX as u64 {
            return Ok(ToolOutput::text(note + TOO_LARGE));
        }
        if !self.sees {
            note.push_str(
                "\n[Current model does not support images. The image will be omitted from this \
                 request.]",
            );
            return Ok(ToolOutput::text(note));
        }
        let bytes = place.read(PICTURE_MAX as u64).map_err(|error| error.to_string())?;
        if !picture_fits(PictureSize::of(&bytes)) {
            return Ok(ToolOutput::text(note + TOO_LARGE));
        }
        let mut output = ToolOutput::text(note);
        output.content.push(ContentBlock::image(STANDARD.encode(bytes), kind.mime));
        Ok(output)
    }

    fn lines(&self, file: File, kind: MediaType, size: u64) -> Result<ToolOutput, String> {
        let start = self.offset.unwrap_or(1).max(1) - 1;
        let window = window::read(BufReader::new(file), start, self.limit);
        let window = window.map_err(|error| match error {
            WindowError::Binary => format!(
                "Cannot read binary file: {} ({}, {}). Use exec with a program that understands it.",
                self.path,
                // A text of which the beginning alone looks so is none.
                if kind.mime.starts_with("text/") { BINARY } else { kind.mime },
                size_in_words(size)
            ),
            WindowError::Io(error) => error.to_string(),
        })?;
        if start >= window.total {
            return Err(format!(
                "Offset {} is beyond end of file ({} lines total)",
                start + 1,
                window.total
            ));
        }
        Ok(self.told(&window, start))
    }

    fn told(&self, window: &Window, start: usize) -> ToolOutput {
        let (first, next) = (start + 1, start + window.shown + 1);
        let total = if window.is_partial {
            format!("more than {}", window.total)
        } else {
            window.total.to_string()
        };
        if let Some(length) = window.first_too_long {
            let text = format!(
                "[Line {first} is {}, exceeds {} limit. Use exec: sed -n '{first}p' {} | head -c {BYTES_MAX}]",
                size_in_words(length as u64),
                size_in_words(BYTES_MAX as u64),
                self.path
            );
            return ToolOutput {
                details: Some(details(window, "bytes")),
                ..ToolOutput::text(text)
            };
        }
        let range = format!("{first}-{}", next - 1);
        let hint = match window.cut {
            Some(Cut::Lines) => {
                format!("[Showing lines {range} of {total}. Use offset={next} to continue.]")
            }
            Some(Cut::Bytes) => format!(
                "[Showing lines {range} of {total} ({} limit). Use offset={next} to continue.]",
                size_in_words(BYTES_MAX as u64)
            ),
            None if next <= window.total => {
                let rest = window.total - (next - 1);
                format!("[{rest} more lines in file. Use offset={next} to continue.]")
            }
            None => return ToolOutput::text(&window.text),
        };
        let by = window.cut.map(|cut| if cut == Cut::Lines { "lines" } else { "bytes" });
        let output = ToolOutput::text(format!("{}\n\n{hint}", window.text));
        ToolOutput { details: by.map(|by| details(window, by)), ..output }
    }
}

/// What clients learn of a cut.
fn details(window: &Window, by: &str) -> Value {
    json!({"truncation": {
        "truncated": true,
        "truncatedBy": by,
        "totalLines": window.total,
        "outputLines": window.shown,
        "outputBytes": window.text.len(),
        "firstLineExceedsLimit": window.first_too_long.is_some(),
        "maxLines": LINES_MAX,
        "maxBytes": BYTES_MAX,
    }})
}

fn size_in_words(bytes: u64) -> String {
    const KIB: u64 = 1024;
    let tenths = |unit: u64| (bytes * 10 + unit / 2) / unit;
    match bytes {
        ..KIB => format!("{bytes}B"),
        KIB..1_048_576 => format!("{}.{}KB", tenths(KIB) / 10, tenths(KIB) % 10),
        _ => format!("{}.{}MB", tenths(KIB * KIB) / 10, tenths(KIB * KIB) % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::reach::testing::Scene;
    use crate::providers::testing::png;

    fn ask(path: &str, offset: Option<usize>, limit: Option<usize>) -> Ask {
        Ask { path: path.into(), offset, limit, sees: true }
    }

    fn text_of(scene: &Scene, ask: &Ask) -> String {
        ask.answer(&scene.reach(true)).unwrap().to_text()
    }

    #[test]
    fn cards_say_what_is_read() {
        let meta = |arguments: Value| Read.meta(&arguments).unwrap();
        assert_eq!(meta(json!({"path": "a"})), "from a");
        assert_eq!(meta(json!({"path": "a", "offset": 3})), "from line 3 in a");
        assert_eq!(meta(json!({"path": "a", "limit": 1})), "first 1 line of a");
        assert_eq!(meta(json!({"path": "a", "offset": 3, "limit": 2})), "lines 3-4 from a");
        assert_eq!(Read.meta(&json!({})), None);
    }

    #[test]
    fn a_file_is_read_in_parts_and_the_hints_lead_through_all_of_it() {
        let scene = Scene::new();
        let lines: Vec<String> = (1..=4500).map(|n| format!("line {n}")).collect();
        scene.put("long.txt", lines.join("\n"));
        let (mut offset, mut seen) = (None, Vec::new());
        loop {
            let shown = text_of(&scene, &ask("long.txt", offset, None));
            let (text, hint) = shown.split_once("\n\n[").unwrap_or((&shown, ""));
            seen.extend(text.lines().map(str::to_owned));
            let Some((_, rest)) = hint.split_once("offset=") else { break };
            offset = Some(rest.split(' ').next().unwrap().parse().unwrap());
        }
        assert_eq!(seen, lines);
        let hint = "line 2\n\n[4498 more lines in file. Use offset=3 to continue.]";
        assert_eq!(text_of(&scene, &ask("long.txt", Some(2), Some(1))), hint);
        let error = ask("long.txt", Some(4501), None).answer(&scene.reach(true)).unwrap_err();
        assert_eq!(error, "Offset 4501 is beyond end of file (4500 lines total)");
    }

    #[test]
    fn pictures_go_to_models_that_see() {
        let scene = Scene::new();
        scene.put("dot.png", b"\x89PNG\r\n\x1a\n....");
        let output = ask("dot.png", None, None).answer(&scene.reach(true)).unwrap();
        assert_eq!(output.content[0], ContentBlock::text("Read image file [image/png]"));
        let data = STANDARD.encode(b"\x89PNG\r\n\x1a\n....");
        assert_eq!(output.content[1], ContentBlock::image(data, "image/png"));
        let blind = Ask { sees: false, ..ask("dot.png", None, None) };
        let output = blind.answer(&scene.reach(true)).unwrap();
        assert_eq!(output.content.len(), 1);
        assert!(output.to_text().contains("does not support images"));
        let mut large = b"\x89PNG\r\n\x1a\n".to_vec();
        large.resize(PICTURE_MAX, 1);
        scene.put("large.png", large);
        scene.put("wide.png", png(8001, 1));
        for name in ["large.png", "wide.png"] {
            let output = ask(name, None, None).answer(&scene.reach(true)).unwrap();
            assert_eq!(output.content.len(), 1);
            assert!(output.to_text().contains("[Image omitted"), "{output:?}");
        }
    }

    #[test]
    fn what_is_no_text_is_not_poured_out() {
        let scene = Scene::new();
        scene.put("program", b"\x7fELF\0\0\0");
        let error = ask("program", None, None).answer(&scene.reach(true)).unwrap_err();
        assert!(error.starts_with("Cannot read binary file: program ("), "{error}");
        // What it begins with is text, and as a whole it is none.
        for (name, begins) in [("zeros", 0), ("late", 100)] {
            let mut bytes = vec![b'a'; begins];
            bytes.resize(2560, 0);
            scene.put(name, bytes);
            let error = ask(name, None, None).answer(&scene.reach(true)).unwrap_err();
            let told = format!("Cannot read binary file: {name} (application/octet-stream, 2.5KB)");
            assert!(error.starts_with(&told), "{error}");
        }
    }

    #[test]
    fn sizes_are_told_in_words() {
        let words = [10, 1536, 50 * 1024, 3 * 1024 * 1024].map(size_in_words);
        assert_eq!(words, ["10B", "1.5KB", "50.0KB", "3.0MB"]);
    }
}
