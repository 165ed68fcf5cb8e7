//! Tools for files: `read`, `write`, `edit`, `apply_patch`.
//!
//! Promises: every file is reached through [`crate::agent::reach`]; two calls
//! never change a file at the same time; a change is made as a whole or not at
//! all. Source of names, schemas and texts: the original's coding agent.

mod apply_patch;
mod edit;
pub mod patch;
mod read;
pub mod window;
mod write;

pub use read::takes_pictures;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Tool, ToolContext, ToolOutput};
use crate::agent::approvals::Lineage;
use crate::agent::reach::{FileLocks, Reach, shared_folders};
use crate::config::{ExecSandbox, FileRules};
use crate::protocol::message::ContentBlock;
use crate::providers::{PictureSize, picture_fits};
use crate::sessions::MediaType;
use crate::support;

/// Largest file that is edited. A model writes text; what is larger is data.
const EDIT_MAX: u64 = 10 * 1024 * 1024;

/// Base64 bytes of a picture that goes to a model; the limit of providers is
/// 5 MB.
pub const PICTURE_MAX: usize = 4_718_592;

/// A picture in base64, if providers take it: what it is, its bytes say.
pub fn picture(data: impl AsRef<str> + Into<String>) -> Option<ContentBlock> {
    let text = data.as_ref();
    if text.len() > PICTURE_MAX {
        return None;
    }
    let bytes = STANDARD.decode(text).ok()?;
    let kind = MediaType::of(&bytes, "");
    let fits = kind.is_picture() && picture_fits(PictureSize::of(&bytes));
    fits.then(|| ContentBlock::image(data, kind.mime))
}

/// The tools for files, which take these locks.
pub fn tools(locks: &FileLocks) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read::Read),
        Arc::new(write::Write::new(locks.clone())),
        Arc::new(edit::EditTool::new(locks.clone())),
        Arc::new(apply_patch::ApplyPatch::new(locks.clone())),
    ]
}

/// What the agent of a call may do with files.
pub(super) fn rules(cx: &ToolContext) -> FileRules {
    FileRules::of(&cx.parts().settings.now(), &cx.agent.tools.files)
}

/// The files that the agent of a call reaches: no more than its workspace where commands of
/// the session are confined, and no program that the allowlist of commands may mean.
pub async fn reach(cx: &ToolContext) -> Reach {
    bounds(cx, is_confined(cx).await).await
}

/// The same for a path that is only read. A confined session reads what its commands do, too:
/// skills, and what the gateway keeps for models.
pub async fn reach_to_read(cx: &ToolContext, written: &str) -> Reach {
    let is_confined = is_confined(cx).await;
    let reach = bounds(cx, is_confined).await;
    if !is_confined || rules(cx).is_workspace_only() {
        return reach;
    }
    let settings = cx.parts().settings.now();
    let mut given = settings.skills.shared_dirs().cloned().chain(shared_folders(&settings));
    let path = reach.absolute(written).unwrap_or_default();
    // A path in the workspace, which may lie in one of them, is relative to that.
    given
        .find(|folder| path.starts_with(folder) && !path.starts_with(reach.workspace()))
        .map_or_else(|| reach.clone(), |it| reach.within(it))
}

async fn bounds(cx: &ToolContext, is_confined: bool) -> Reach {
    let parts = cx.parts();
    let only_workspace = is_confined || rules(cx).is_workspace_only();
    let reach = Reach::new(&parts.settings.now(), &cx.agent, only_workspace);
    reach.sparing(parts.approvals.listed().await)
}

/// Whether commands of the session of a call are confined.
async fn is_confined(cx: &ToolContext) -> bool {
    let parts = cx.parts();
    let line = Lineage::of(&parts.sessions, &cx.key).await;
    let settings = parts.settings.now();
    // Nothing is known of a line that cannot be read.
    line.map_or(true, |line| line.usual(&settings) != ExecSandbox::Off)
}

/// Does what blocks off the async threads. Work that has begun is finished even
/// when nobody waits for it any more.
pub async fn blocking<T: Send + 'static>(
    tool: &'static str,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, ToolOutput> {
    let done = support::blocking(work).await;
    done.unwrap_or_else(|_| Err("the work was cut off".into()))
        .map_err(|error| ToolOutput::failed(tool, error))
}

/// A text among the arguments; empty when it is not there.
pub fn text<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A positive whole number among the arguments.
fn count(arguments: &Value, name: &str) -> Option<usize> {
    let number = arguments.get(name)?;
    let whole = number.as_u64().or_else(|| {
        let number = number.as_f64()?.floor();
        // Saturates; a line number of that size is beyond any file.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        (number >= 0.0).then_some(number as u64)
    })?;
    Some(usize::try_from(whole).unwrap_or(usize::MAX))
}

/// Length of a text as clients count it.
fn characters(text: &str) -> usize {
    text.encode_utf16().count()
}
