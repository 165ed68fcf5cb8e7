//! Where tests put what must not lie in a directory that is open to all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The bit that lets anybody write.
const OTHERS_WRITE: u32 = 0o002;

/// A directory that is in none that anybody may write to, as that for temporary
/// files is: that of this build, or home when the sources are in such a place.
pub fn closed_place() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let places = [PathBuf::from(env!("CARGO_TARGET_TMPDIR"))].into_iter().chain(home);
    places.into_iter().find(|place| is_closed(place)).expect("a directory that is not open to all")
}

fn is_closed(path: &Path) -> bool {
    let mode =
        |place: &Path| fs::metadata(place).map_or(OTHERS_WRITE, |it| it.permissions().mode());
    path.ancestors().all(|place| mode(place) & OTHERS_WRITE == 0)
}
