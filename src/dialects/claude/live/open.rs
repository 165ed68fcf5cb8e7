//! A block of an answer that is not complete.

use crate::agent::Visible;
use crate::sessions::directives;

/// What has come of it.
#[derive(Debug)]
pub(super) enum Open {
    Text { raw: String, seen: Visible, told: usize },
    Thinking { text: String, signature: Option<String>, is_told: bool },
    Call { id: String, name: String, arguments: String, is_cut: bool },
}

impl Open {
    /// Whether only what comes next tells what is a thought in it.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Text { seen, .. } if seen.is_in_doubt())
    }
}

/// What people see of a text and have not been told; `told` counts its bytes.
pub(super) fn unsaid(seen: &Visible, told: &mut usize) -> Option<String> {
    let text = seen.text();
    let text = if directives::is_silent(text) { "" } else { directives::strip_glued(text) };
    let new = text.get(*told..).filter(|new| !new.is_empty())?;
    *told = text.len();
    Some(new.to_owned())
}
