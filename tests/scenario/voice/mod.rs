//! Speech through the real binary: wake words, text to speech, talking.

mod speaking;
mod talking;
mod waking;
