//! The sessions that spawned each other.

use super::{SessionEntry, SessionError, SessionKey, Sessions};

/// A line of sessions that spawned each other has at most so many, the last one counted;
/// what is deeper may do nothing.
pub const LINE_MAX: usize = 16;

impl Sessions {
    /// The sessions above one, the nearest first: at most [`LINE_MAX`], which is one more
    /// than a line may have above its last.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub async fn spawners(
        &self,
        entry: Option<&SessionEntry>,
    ) -> Result<Vec<(SessionKey, Option<SessionEntry>)>, SessionError> {
        let mut above = Vec::new();
        let mut next = entry.and_then(|entry| entry.spawned_by.clone());
        while let Some(parent) = next.filter(|_| above.len() < LINE_MAX) {
            let key = SessionKey::from_canonical(parent);
            let entry = self.entry(&key).await?;
            next = entry.as_ref().and_then(|entry| entry.spawned_by.clone());
            above.push((key, entry));
        }
        Ok(above)
    }
}
