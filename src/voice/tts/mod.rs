//! Text to speech: who speaks, and what was chosen.
//!
//! Owns: which services there are and which of them can be used here, what
//! people have chosen, speaking a text. Promises: a text and its sound have
//! bounds; a service gets its own key and nobody else's; no key is in an error.

mod choice;
mod command;
mod output;
mod provider;
mod remote;
mod speak;

pub use choice::{TtsChange, TtsState};
pub use provider::SpeechProvider;
pub(super) use speak::tidy;
pub use speak::{SpeakRequest, SpeechError, Spoken};

/// Sound, as a service gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audio {
    /// The sound.
    pub bytes: Vec<u8>,
    /// How it is written, in the words of the service.
    pub format: String,
    /// The end of a file name for it, with its dot.
    pub extension: &'static str,
    /// Whether chats show it as a voice message.
    pub voice_compatible: bool,
}

impl Audio {
    /// Its media type.
    pub fn media_type(&self) -> &'static str {
        match self.extension {
            ".mp3" => "audio/mpeg",
            ".opus" | ".ogg" => "audio/ogg",
            ".wav" => "audio/wav",
            ".flac" => "audio/flac",
            ".aac" => "audio/aac",
            ".m4a" => "audio/mp4",
            _ => "audio/pcm",
        }
    }
}
