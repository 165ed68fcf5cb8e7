//! A picture of an agent that lies in its workspace.
//!
//! Promises: nothing outside of the workspace is opened, wherever links lead, and
//! nothing that is no picture is told.

use std::io::Read as _;
use std::path::{Component, Path};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

use super::identity::Avatar;
use crate::sessions::MediaType;

/// It is part of every list of agents; as base64 it is as long as the longest
/// one that may stand in `IDENTITY.md`.
const PICTURE_MAX: u64 = 96 * 1024;

/// The picture at this path in `dir`; `None` when there is none. Blocks.
pub fn in_workspace(dir: &Path, written: &str) -> Option<Avatar> {
    let path = Path::new(written.trim());
    if path.as_os_str().is_empty()
        || path.components().any(|it| !matches!(it, Component::Normal(_)))
    {
        return None;
    }
    let folder = Dir::open_ambient_dir(dir, ambient_authority()).ok()?;
    let mut options = OpenOptions::new();
    // A pipe must not hold anybody up.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.read(true).custom_flags(i32::try_from(flags.bits()).ok()?);
    let file = folder.open_with(path, &options).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > PICTURE_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(PICTURE_MAX).read_to_end(&mut bytes).ok()?;
    let kind = MediaType::of(&bytes, "");
    let url = || format!("data:{};base64,{}", kind.mime, STANDARD.encode(&bytes));
    kind.is_picture().then(|| Avatar::Local(url()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_pictures_of_the_workspace_are_shown() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("w");
        fs::create_dir_all(dir.join("faces")).unwrap();
        let png = b"\x89PNG\r\n\x1a\n..";
        for path in ["w/faces/a.png", "outside.png"] {
            fs::write(root.path().join(path), png).unwrap();
        }
        fs::write(dir.join("secret.png"), "TOPSECRET").unwrap();
        fs::write(dir.join("large.png"), [png.as_slice(), &vec![0; 100_000]].concat()).unwrap();
        std::os::unix::fs::symlink("../outside.png", dir.join("link.png")).unwrap();
        let shown = in_workspace(&dir, "faces/a.png").unwrap();
        assert_eq!(shown, Avatar::Local("data:image/png;base64,iVBORw0KGgouLg==".into()));
        let absolute = dir.join("faces/a.png").display().to_string();
        for path in [
            "secret.png",
            "large.png",
            "link.png",
            "../outside.png",
            "faces",
            "none.png",
            "",
            &absolute,
        ] {
            assert_eq!(in_workspace(&dir, path), None, "{path}");
        }
    }
}
