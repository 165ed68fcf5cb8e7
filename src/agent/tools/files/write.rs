//! `write`: a whole file.

use serde_json::Value;

use super::{blocking, characters, reach, text};
use crate::agent::reach::FileLocks;
use crate::agent::tools::{Tool, ToolContext, ToolOutput};
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, json};

const NAME: &str = "write";

/// The tool.
pub struct Write {
    locks: FileLocks,
}

impl Write {
    /// The tool, beside others that change files.
    pub const fn new(locks: FileLocks) -> Self {
        Self { locks }
    }

    async fn write(&self, cx: &ToolContext, arguments: &Value) -> Result<ToolOutput, ToolOutput> {
        let path = text(arguments, "path").to_owned();
        let content = text(arguments, "content").to_owned();
        let (reach, written) = (reach(cx).await, path.clone());
        let (place, id) = blocking(NAME, move || {
            let place = reach.find_or_make(&written).map_err(|error| error.to_string())?.place;
            let id = place.id().map_err(|error| error.to_string())?;
            Ok((place, id))
        })
        .await?;
        let held = self.locks.take(vec![id]).await;
        let bytes = content.len();
        blocking(NAME, move || {
            let _held = held;
            place.replace(content.as_bytes()).map_err(|error| error.to_string())
        })
        .await?;
        Ok(ToolOutput::text(format!("Successfully wrote {bytes} bytes to {path}")))
    }
}

impl Tool for Write {
    fn name(&self) -> &'static str {
        NAME
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Write content to a file. Creates the file if it doesn't exist, \
                overwrites if it does. Automatically creates parent directories."
                .into(),
            parameters: json!({
                "type": "object",
                "required": ["path", "content"],
                "properties": {
                    "path": {
                        "type": "string",
                        "description": "Path to the file to write (relative or absolute)",
                    },
                    "content": {"type": "string", "description": "Content to write to the file"},
                },
            }),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let path = arguments.get("path")?.as_str()?;
        let length = characters(text(arguments, "content"));
        Some(if length == 0 { format!("to {path}") } else { format!("to {path} ({length} chars)") })
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { self.write(cx, arguments).await.unwrap_or_else(|failed| failed) })
    }
}
