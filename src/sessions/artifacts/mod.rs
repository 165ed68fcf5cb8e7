//! What a conversation holds beside text: pictures, recordings, files.
//!
//! Owns: finding it in a transcript, and its data. Promises: what is listed is
//! in the transcript or in the media folder at that moment; an id names the same
//! thing for ever; nothing is read but the transcript of the session and files
//! of the media folder. Must not: fetch what is only an address.

mod blocks;
mod read;

use super::media::StoredMedia;
use super::service::Sessions;
use super::{SessionError, SessionKey};
use blocks::Content;

/// Where the data of an artifact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Download {
    /// Here.
    Bytes,
    /// At an address.
    Url,
    /// Nowhere.
    Unsupported,
}

impl Download {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Url => "url",
            Self::Unsupported => "unsupported",
        }
    }
}

/// Something in a conversation that is no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its id.
    pub id: String,
    /// `image`, `audio`, `video` or `file`.
    pub kind: &'static str,
    /// Its file name, or its kind and number.
    pub title: String,
    /// What it is, where that is known.
    pub mime_type: Option<String>,
    /// How large it is, where that is known.
    pub size: Option<u64>,
    /// Place of its message in the conversation.
    pub message_seq: u64,
    /// Where its data is.
    pub download: Download,
}

/// The data of an artifact.
#[derive(Debug, PartialEq, Eq)]
pub enum ArtifactData {
    /// Itself, as base64.
    Base64(String),
    /// Where it is.
    Url(String),
    /// It cannot be had.
    Missing,
    /// So many bytes are more than asked for.
    TooLarge(u64),
}

impl Sessions {
    /// The artifacts of a session, the oldest first; those of one run, where it
    /// is named. Of very long conversations the newest.
    ///
    /// # Errors
    /// When the transcript or the index is not readable.
    pub async fn artifacts(
        &self,
        key: &SessionKey,
        run_id: Option<&str>,
    ) -> Result<Vec<Artifact>, SessionError> {
        Ok(self.found(key, run_id).await?.into_iter().map(|found| found.artifact).collect())
    }

    /// One artifact with its data, of at most `max` bytes.
    ///
    /// # Errors
    /// When the transcript or the index is not readable.
    pub async fn artifact(
        &self,
        key: &SessionKey,
        run_id: Option<&str>,
        id: &str,
        max: u64,
    ) -> Result<Option<(Artifact, ArtifactData)>, SessionError> {
        let found = self.found(key, run_id).await?;
        let Some(found) = found.into_iter().find(|found| found.artifact.id == id) else {
            return Ok(None);
        };
        let data = match found.artifact.size.filter(|size| *size > max) {
            Some(size) => ArtifactData::TooLarge(size),
            None => self.data(key, &found).await?,
        };
        Ok(Some((found.artifact, data)))
    }

    async fn found(
        &self,
        key: &SessionKey,
        run_id: Option<&str>,
    ) -> Result<Vec<read::Found>, SessionError> {
        let Some(entry) = self.entry(key).await? else { return Ok(Vec::new()) };
        let (media, run) = (self.media(), run_id.map(str::to_owned));
        let session = entry.session_id.clone();
        self.read(key, &entry, move |file, end| {
            read::artifacts(file, end, &session, run.as_deref(), &media)
        })
        .await
    }

    async fn data(
        &self,
        key: &SessionKey,
        found: &read::Found,
    ) -> Result<ArtifactData, SessionError> {
        if found.artifact.download == Download::Unsupported {
            return Ok(ArtifactData::Missing);
        }
        let Some(entry) = self.entry(key).await? else { return Ok(ArtifactData::Missing) };
        let (seq, index) = (found.artifact.message_seq, found.index);
        let content = self.read(key, &entry, move |file, end| read::content(file, end, seq, index));
        Ok(match content.await? {
            Some(Content::Base64(data)) => ArtifactData::Base64(data),
            Some(Content::Url(url)) => ArtifactData::Url(url),
            Some(Content::File(stored)) => self.of_file(&stored).await,
            Some(Content::Nothing) | None => ArtifactData::Missing,
        })
    }

    async fn of_file(&self, stored: &StoredMedia) -> ArtifactData {
        let data = self.media().base64(stored).await;
        data.map_or(ArtifactData::Missing, ArtifactData::Base64)
    }
}
