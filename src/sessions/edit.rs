//! Changes of what the index knows that may be refused.

use std::path::Path;

use super::service::Sessions;
use super::{SessionError, SessionKey};
use crate::store::{Edited, SessionEntry};

impl Sessions {
    /// Changes the settings of a session, which is begun if there is none;
    /// `cwd` is noted in a new transcript. A label is given to one session of an
    /// agent only, also when two ask for it at the same time.
    ///
    /// # Errors
    /// [`SessionError::LabelTaken`]; [`SessionError::Refused`] with the text of
    /// `edit`. Nothing is changed then.
    pub async fn edit(
        &self,
        key: &SessionKey,
        cwd: &Path,
        edit: impl FnOnce(&mut SessionEntry) -> Result<(), String> + Send + 'static,
    ) -> Result<SessionEntry, SessionError> {
        let now = self.inner.clock.now_ms();
        let edit = move |entry: &mut SessionEntry| {
            edit(entry)?;
            entry.updated_at = entry.updated_at.max(now);
            Ok(())
        };
        let new = self.new_session(key);
        match self.inner.store.edit_session(new, Box::new(edit)).await? {
            Edited::Written { entry, is_new } => {
                if is_new {
                    self.inner.writer.begin(self.place(key, &entry, Some(cwd))?).await?;
                }
                Ok(*entry)
            }
            Edited::LabelTaken(label) => Err(SessionError::LabelTaken(label)),
            Edited::Refused(reason) => Err(SessionError::Refused(reason)),
        }
    }
}
