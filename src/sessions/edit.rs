//! Changes of what the index knows that may be refused.

use std::path::Path;

use super::service::Sessions;
use super::steps::show;
use super::{SessionError, SessionId, SessionKey, paths};
use crate::store::{Edited, NewSession, SessionEntry};
use crate::support::blocking;

impl Sessions {
    /// Begins a session whose transcript has this id; one that is there stays as
    /// it is, but for what `edit` changes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn begin_as(
        &self,
        key: &SessionKey,
        id: &str,
        cwd: &Path,
        edit: impl FnOnce(&mut SessionEntry) + Send + 'static,
    ) -> Result<SessionEntry, SessionError> {
        let new = self.session_as(key, id);
        let edit = move |entry: &mut SessionEntry| {
            edit(entry);
            Ok(())
        };
        self.written(key, new, cwd, edit).await
    }

    /// Whether a session that there is not yet may begin with a transcript of this id: no
    /// other session has it, and no other file its name.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub async fn may_begin_as(
        &self,
        key: &SessionKey,
        id: &SessionId,
    ) -> Result<bool, SessionError> {
        let is_known = self.entry(key).await?.is_some() || self.by_id(id.as_str()).await?.is_some();
        let Some(file) = self.new_file(key, id.as_str()).filter(|_| !is_known) else {
            return Ok(false);
        };
        let is_transcript = paths::stem(&file).is_some();
        let is_there = move || Path::new(&file).try_exists();
        Ok(is_transcript && matches!(blocking(is_there).await, Ok(Ok(false))))
    }

    /// Lets a session show the transcript of another one that runs, under a name of its
    /// own; it is begun if there is none, bound as that one is. What a person has set on it
    /// stays; the transcript that it showed before is put away, unless another session has it.
    /// For whoever has its lane: what runs there would go on in another transcript.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn follow(
        &self,
        key: &SessionKey,
        other: &SessionEntry,
        name: &str,
    ) -> Result<SessionEntry, SessionError> {
        let other = SessionEntry { status: Some("running".into()), ..other.clone() };
        let had = self.entry(key).await?.filter(|had| had.session_id != other.session_id);
        let noted = match &had {
            Some(had) => self.leaving(key, had, "deleted").await?,
            None => None,
        };
        let mut new = self.new_session(key);
        new.entry.exec_security.clone_from(&other.exec_security);
        new.entry.exec_ask.clone_from(&other.exec_ask);
        new.entry.exec_host.clone_from(&other.exec_host);
        new.entry.exec_node.clone_from(&other.exec_node);
        for label in [Some(name.to_owned()), None] {
            let (other, name) = (other.clone(), name.to_owned());
            let edit = move |entry: &mut SessionEntry| {
                show(entry, other);
                if entry.label.is_none() || entry.label == entry.display_name {
                    entry.label = label;
                }
                entry.display_name = Some(name);
                Ok(())
            };
            let edited = self.inner.store.edit_session(new.clone(), Box::new(edit));
            match edited.await? {
                Edited::Written { entry, .. } => {
                    if let Some(had) = had {
                        Box::pin(self.archive(key, &had, "deleted", noted)).await;
                    }
                    return Ok(*entry);
                }
                // A label is given to one session only; the name stays.
                Edited::LabelTaken(_) => {}
                Edited::Refused(reason) => return Err(SessionError::Refused(reason)),
            }
        }
        Err(SessionError::LabelTaken(name.to_owned()))
    }

    /// Shows how the other one is that has the same transcript and has gone on with it, unless
    /// the session has another one by now. What was paid for in either stays paid for.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; when it cannot be written.
    pub async fn follow_to_end(
        &self,
        key: &SessionKey,
        other: SessionEntry,
    ) -> Result<SessionEntry, SessionError> {
        let change = move |entry: &mut SessionEntry| {
            if entry.session_id == other.session_id {
                let spent = [entry.estimated_cost_usd, other.estimated_cost_usd];
                show(entry, other);
                entry.estimated_cost_usd = spent.into_iter().flatten().reduce(f64::max);
            }
        };
        self.update(key, change).await
    }

    /// Changes the settings of a session, which is begun if there is none, with this `id` if
    /// there is one; `cwd` is noted in a new transcript. A label is given to one session of an
    /// agent only, also when two ask for it at the same time.
    ///
    /// # Errors
    /// [`SessionError::LabelTaken`]; [`SessionError::Refused`] with the text of
    /// `edit`. Nothing is changed then.
    pub async fn edit(
        &self,
        key: &SessionKey,
        id: Option<&SessionId>,
        cwd: &Path,
        edit: impl FnOnce(&mut SessionEntry) -> Result<(), String> + Send + 'static,
    ) -> Result<SessionEntry, SessionError> {
        let now = self.inner.clock.now_ms();
        let edit = move |entry: &mut SessionEntry| {
            edit(entry)?;
            entry.updated_at = entry.updated_at.max(now);
            Ok(())
        };
        let new = match id {
            Some(id) => self.session_as(key, id.as_str()),
            None => self.new_session(key),
        };
        self.written(key, new, cwd, edit).await
    }

    fn session_as(&self, key: &SessionKey, id: &str) -> NewSession {
        let mut new = self.new_session(key);
        id.clone_into(&mut new.entry.session_id);
        new.entry.session_file = self.new_file(key, id);
        new
    }

    async fn written(
        &self,
        key: &SessionKey,
        new: NewSession,
        cwd: &Path,
        edit: impl FnOnce(&mut SessionEntry) -> Result<(), String> + Send + 'static,
    ) -> Result<SessionEntry, SessionError> {
        match self.inner.store.edit_session(new, Box::new(edit)).await? {
            Edited::Written { entry, is_new } => {
                if is_new {
                    self.begin(key, &entry, cwd).await;
                }
                Ok(*entry)
            }
            Edited::LabelTaken(label) => Err(SessionError::LabelTaken(label)),
            Edited::Refused(reason) => Err(SessionError::Refused(reason)),
        }
    }
}
