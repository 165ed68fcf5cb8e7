//! `edit`: parts of a file, named by what they say.

mod diff;
mod replace;
pub(super) mod view;

use serde_json::Value;

use super::{EDIT_MAX, blocking, characters, reach, text};
use crate::agent::reach::{FileLocks, Place, ReachError};
use crate::agent::tools::{Tool, ToolContext, ToolOutput};
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, json};
use replace::{Replacement, replace};

const NAME: &str = "edit";

/// The tool.
pub struct EditTool {
    locks: FileLocks,
}

impl EditTool {
    /// The tool, beside others that change files.
    pub const fn new(locks: FileLocks) -> Self {
        Self { locks }
    }

    async fn edit(&self, cx: &ToolContext, arguments: &Value) -> Result<ToolOutput, ToolOutput> {
        let path = text(arguments, "path").to_owned();
        let parts = parts(arguments).map_err(|error| ToolOutput::failed(NAME, error))?;
        let (reach, written) = (reach(cx).await, path.clone());
        let (place, id) = blocking(NAME, move || {
            let place = reach.find(&written).map_err(|error| not_editable(&error, &written))?;
            let id = place.id().map_err(|error| not_editable(&error, &written))?;
            Ok((place, id))
        })
        .await?;
        let held = self.locks.take(vec![id]).await;
        blocking(NAME, move || {
            let _held = held;
            change(&place, &parts, &path)
        })
        .await
    }
}

fn change(place: &Place, parts: &[Replacement], path: &str) -> Result<ToolOutput, String> {
    let bytes = place.read(EDIT_MAX).map_err(|error| not_editable(&error, path))?;
    let before = String::from_utf8(bytes)
        .map_err(|_| format!("Could not edit file: {path}. It is not UTF-8 text."))?;
    let after = replace(&before, parts, path)?;
    place.replace(after.as_bytes()).map_err(|error| not_editable(&error, path))?;
    let diff = diff::lines(&before, &after);
    let text = format!("Successfully replaced {} block(s) in {path}.", parts.len());
    let details = json!({"diff": diff.text, "firstChangedLine": diff.first_changed});
    Ok(ToolOutput { details: Some(details), ..ToolOutput::text(text) })
}

fn not_editable(error: &ReachError, path: &str) -> String {
    match error.code() {
        Some(code) => format!("Could not edit file: {path}. Error code: {code}."),
        None => error.to_string(),
    }
}

/// The parts in the forms that models write: a list, or one part beside the
/// path.
fn parts(arguments: &Value) -> Result<Vec<Replacement>, String> {
    let listed = arguments.get("edits").and_then(Value::as_array);
    let listed = listed.map(Vec::as_slice).unwrap_or_default();
    let part = |from: &Value| {
        let text = |name| from.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Replacement { old: text("oldText")?, new: text("newText")? })
    };
    let mut parts = Vec::with_capacity(listed.len() + 1);
    for from in listed {
        parts.push(part(from).ok_or("Each of edits needs oldText and newText.")?);
    }
    parts.extend(part(arguments));
    if parts.is_empty() {
        return Err(
            "Edit tool input is invalid. edits must contain at least one replacement.".into()
        );
    }
    Ok(parts)
}

impl Tool for EditTool {
    fn name(&self) -> &'static str {
        NAME
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Edit a single file using exact text replacement. Every edits[].oldText \
                must match a unique, non-overlapping region of the original file. If two changes \
                affect the same block or nearby lines, merge them into one edit instead of \
                emitting overlapping edits. Do not include large unchanged regions just to \
                connect distant changes."
                .into(),
            parameters: json!({
                "type": "object",
                "required": ["path"],
                "properties": {
                    "path": {
                        "type": "string",
                        "description": "Path to the file to edit (relative or absolute)",
                    },
                    "edits": {
                        "type": "array",
                        "description": "The replacements. Each is looked for in the original \
                            file, not in what earlier ones made of it.",
                        "items": {
                            "type": "object",
                            "required": ["oldText", "newText"],
                            "properties": {
                                "oldText": {
                                    "type": "string",
                                    "description": "Text that is there exactly once.",
                                },
                                "newText": {
                                    "type": "string",
                                    "description": "Text that comes in its place.",
                                },
                            },
                            "additionalProperties": false,
                        },
                    },
                    "oldText": {
                        "type": "string",
                        "description": "Of a single replacement, in place of edits.",
                    },
                    "newText": {
                        "type": "string",
                        "description": "Of a single replacement, in place of edits.",
                    },
                },
                "additionalProperties": false,
            }),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let path = arguments.get("path")?.as_str()?;
        let length = characters(text(arguments, "newText"));
        Some(if length == 0 { format!("in {path}") } else { format!("in {path} ({length} chars)") })
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { self.edit(cx, arguments).await.unwrap_or_else(|failed| failed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::reach::testing::Scene;

    #[test]
    fn parts_come_in_every_form_that_models_write() {
        let one = vec![Replacement { old: "a".into(), new: "b".into() }];
        let edits = json!([{"oldText": "a", "newText": "b"}]);
        assert_eq!(parts(&json!({"edits": edits})).unwrap(), one);
        assert_eq!(parts(&json!({"oldText": "a", "newText": "b"})).unwrap(), one);
        for wrong in [json!({}), json!({"edits": []})] {
            assert!(parts(&wrong).unwrap_err().contains("at least one replacement"));
        }
    }

    #[test]
    fn a_file_is_edited_in_place_and_the_change_is_told() {
        let scene = Scene::new();
        scene.put("a.txt", "\u{feff}one\r\ntwo\r\n");
        let place = scene.reach(true).find("a.txt").unwrap();
        let parts = [Replacement { old: "two".into(), new: "2\n3".into() }];
        let output = change(&place, &parts, "a.txt").unwrap();
        assert_eq!(scene.text("a.txt"), "\u{feff}one\r\n2\r\n3\r\n");
        assert_eq!(output.to_text(), "Successfully replaced 1 block(s) in a.txt.");
        let diff = "  1 one\n-2 two\n+2 2\n+3 3".replace("  1", " 1");
        assert_eq!(output.details.unwrap(), json!({"diff": diff, "firstChangedLine": 2}));
    }

    #[test]
    fn what_cannot_be_edited_stays_as_it_is() {
        let scene = Scene::new();
        scene.put("latin.txt", b"caf\xe9");
        let parts = [Replacement { old: "c".into(), new: "k".into() }];
        let error = |name: &str| {
            let place = scene.reach(true).find(name).unwrap();
            change(&place, &parts, name).unwrap_err()
        };
        assert_eq!(error("latin.txt"), "Could not edit file: latin.txt. It is not UTF-8 text.");
        assert_eq!(error("none"), "Could not edit file: none. Error code: ENOENT.");
        assert_eq!(std::fs::read(scene.path("latin.txt")).unwrap(), b"caf\xe9");
    }
}
