//! Identifiers as a value that is passed in.

use uuid::Uuid;

/// Source of identifiers.
pub trait Ids: Send + Sync + 'static {
    /// A random UUID v4 in its usual text form.
    fn uuid(&self) -> String;

    /// Eight lowercase hex digits, the form of transcript entry ids.
    fn entry_id(&self) -> String {
        self.uuid().chars().take(8).collect()
    }
}

/// Ids from the operating system's random source.
#[derive(Debug, Default, Clone, Copy)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn uuid(&self) -> String {
        Uuid::new_v4().to_string()
    }
}
