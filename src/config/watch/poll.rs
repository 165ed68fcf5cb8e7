//! Where there is no inotify: looks again and again.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Whoever changes the file waits for what becomes of it; asking the system
/// costs next to nothing.
const EVERY: Duration = Duration::from_secs(1);

/// What is seen of a file without reading it: changed when, how long.
type Look = Option<(Option<SystemTime>, u64)>;

/// Watches files.
#[derive(Debug)]
pub struct Watch {
    files: Vec<PathBuf>,
    seen: Vec<Look>,
}

impl Watch {
    /// Begins.
    ///
    /// # Errors
    /// None here.
    pub fn start(files: &[PathBuf]) -> io::Result<Self> {
        let mut watch = Self { files: Vec::new(), seen: Vec::new() };
        watch.follow(files)?;
        Ok(watch)
    }

    /// Watches these files from now on.
    ///
    /// # Errors
    /// None here.
    pub fn follow(&mut self, files: &[PathBuf]) -> io::Result<()> {
        self.files = files.to_vec();
        self.seen = look(&self.files);
        Ok(())
    }

    /// Waits until something has happened to one of the files.
    ///
    /// # Errors
    /// None here.
    pub async fn changed(&self) -> io::Result<()> {
        while look(&self.files) == self.seen {
            tokio::time::sleep(EVERY).await;
        }
        Ok(())
    }
}

fn look(files: &[PathBuf]) -> Vec<Look> {
    let look = |file: &PathBuf| {
        let seen = std::fs::metadata(file).ok()?;
        Some((seen.modified().ok(), seen.len()))
    };
    files.iter().map(look).collect()
}
