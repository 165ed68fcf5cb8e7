//! npm packages: the Control UI in one.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use flate2::read::GzDecoder;
use serde::Deserialize;
use tar::{Archive, EntryType};

use super::folder::Filling;

/// Where it is in a package.
const FOLDER: &str = "package/dist/control-ui";
/// Most bytes of a package, unpacked; the original's has two hundred million.
const MAX_PACKAGE: u64 = 4 * 1024 * 1024 * 1024;
/// Most bytes of `package.json`.
const MAX_MANIFEST: u64 = 4 * 1024 * 1024;

#[derive(Deserialize)]
struct Manifest {
    version: Option<String>,
}

/// The version that a `package.json` tells.
pub(super) fn version_in(manifest: &[u8]) -> Option<String> {
    serde_json::from_slice::<Manifest>(manifest).ok()?.version
}

/// Takes the UI out of a package; its version. `tell` is told how many files there
/// are so far.
pub(super) fn unpack(
    package: &Path,
    into: &mut Filling,
    tell: &dyn Fn(u64),
) -> anyhow::Result<Option<String>> {
    let file = File::open(package).with_context(|| format!("cannot open {}", package.display()))?;
    let read = GzDecoder::new(BufReader::new(file)).take(MAX_PACKAGE);
    unpack_from(read, into, tell)
        .with_context(|| format!("{} is no npm package with a Control UI", package.display()))
}

fn unpack_from(
    read: impl Read,
    into: &mut Filling,
    tell: &dyn Fn(u64),
) -> anyhow::Result<Option<String>> {
    let mut version = None;
    for entry in Archive::new(read).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let kind = entry.header().entry_type();
        if path == Path::new("package/package.json") && kind == EntryType::Regular {
            let mut text = Vec::new();
            entry.by_ref().take(MAX_MANIFEST).read_to_end(&mut text)?;
            version = version_in(&text);
        }
        let Ok(name) = path.strip_prefix(FOLDER) else { continue };
        match kind {
            EntryType::Directory => {}
            EntryType::Regular => {
                into.add(name, &mut entry)?;
                tell(into.files());
            }
            _ => bail!("{} is neither a file nor a folder", path.display()),
        }
    }
    ensure!(into.files() > 0, "it has no folder {FOLDER}");
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with entries as they are given; a name goes in as it is.
    fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, kind, content) in entries {
            let mut header = tar::Header::new_old();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            if kind.is_symlink() || kind.is_hard_link() {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn unpacked(entries: &[(&str, EntryType, &[u8])]) -> (anyhow::Result<Option<String>>, u64) {
        let place = tempfile::tempdir().unwrap();
        let mut filling = Filling::new(&place.path().join("new")).unwrap();
        let done = unpack_from(&archive(entries)[..], &mut filling, &|_| {});
        let around = std::fs::read_dir(place.path()).unwrap().count();
        assert_eq!(around, 1, "nothing beside the folder");
        (done, filling.files())
    }

    const FILE: EntryType = EntryType::Regular;

    #[test]
    fn of_a_package_only_the_ui_is_taken() {
        let (version, files) = unpacked(&[
            ("package/package.json", FILE, br#"{"version": "2026.5.7"}"#),
            ("package/dist/index.js", FILE, b"x"),
            ("package/link", EntryType::Symlink, b""),
            ("package/dist/control-ui/", EntryType::Directory, b""),
            ("package/dist/control-ui/index.html", FILE, b"x"),
            ("package/dist/control-ui/assets/a.js", FILE, b"x"),
        ]);
        assert_eq!((version.unwrap().as_deref(), files), (Some("2026.5.7"), 2));
    }

    #[test]
    fn what_leads_elsewhere_is_not_unpacked() {
        for (name, kind) in [
            ("package/dist/control-ui/../../../x", FILE),
            ("package/dist/control-ui/a/../../x", FILE),
            ("package/dist/control-ui/link", EntryType::Symlink),
            ("package/dist/control-ui/hard", EntryType::Link),
            ("package/dist/control-ui/pipe", EntryType::Fifo),
            ("package/dist/index.js", FILE),
            ("/etc/x", FILE),
        ] {
            let (done, _) = unpacked(&[(name, kind, b"")]);
            assert!(done.is_err(), "{name}");
        }
        assert!(unpack_from(&b"no archive"[..], &mut filling(), &|_| {}).is_err());
    }

    fn filling() -> Filling {
        Filling::new(tempfile::tempdir().unwrap().path()).unwrap()
    }
}
