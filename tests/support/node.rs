//! Third-party programs for Node, which `tests/node/package.json` names.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use super::npm;

/// The folder of an installed package. All of them are installed first where
/// one is not there yet.
pub fn package(name: &str) -> PathBuf {
    static MODULES: OnceLock<PathBuf> = OnceLock::new();
    let modules = MODULES.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node");
        install(&folder);
        folder.join("node_modules")
    });
    modules.join(name)
}

/// Installs what `package.json` asks for. Test processes that want it at the
/// same time wait for the first.
fn install(folder: &Path) {
    let _lock = npm::locked(&folder.join("node_modules.lock")).unwrap();
    let json = |path: PathBuf| -> Option<Value> {
        Some(serde_json::from_str(&fs::read_to_string(path).ok()?).unwrap())
    };
    let wanted = json(folder.join("package.json")).unwrap();
    let is_there = |(name, version): (&String, &Value)| {
        let there = json(folder.join("node_modules").join(name).join("package.json"));
        there.is_some_and(|there| there["version"] == *version)
    };
    if wanted["dependencies"].as_object().unwrap().iter().all(is_there) {
        return;
    }
    npm::install(folder).unwrap();
}
