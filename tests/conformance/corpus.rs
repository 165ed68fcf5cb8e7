//! Where the recordings are: the whole reference when it is there, else the
//! copies beside this test.

use std::fs;
use std::path::{Path, PathBuf};

use super::trace::Trace;

/// The recordings of this run.
pub struct Corpus {
    root: PathBuf,
    /// Whether every recorded trace is there.
    pub complete: bool,
}

impl Corpus {
    pub fn find() -> Self {
        match reference() {
            Some(root) => Self { root, complete: true },
            None => Self::copies(),
        }
    }

    /// The copies that are kept with the tests.
    pub fn copies() -> Self {
        Self { root: manifest().join("tests/conformance/traces"), complete: false }
    }

    /// What the reference says of every method.
    pub fn methods(&self) -> Option<String> {
        let folder = self.root.parent().filter(|_| self.complete)?;
        fs::read_to_string(folder.join("methods.json")).ok()
    }

    /// Folder and name of every trace, in order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = entries(&self.root)
            .into_iter()
            .filter(|path| path.is_dir())
            .flat_map(|folder| entries(&folder))
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .map(|path| {
                let name = path.strip_prefix(&self.root).unwrap().with_extension("");
                name.to_string_lossy().into_owned()
            })
            .collect();
        names.sort();
        names
    }

    pub fn load(&self, name: &str) -> Trace {
        let path = self.root.join(format!("{name}.jsonl"));
        Trace::load(name, &path).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// `CLAWGATE_REFERENCE`, or the reference beside the repository.
fn reference() -> Option<PathBuf> {
    let named = std::env::var_os("CLAWGATE_REFERENCE").map(PathBuf::from);
    let root = named.unwrap_or_else(|| manifest().join("../shared/reference/openclaw-v3"));
    let traces = if root.join("traces").is_dir() { root.join("traces") } else { root };
    traces.join("handshake").is_dir().then_some(traces)
}

pub fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(Result::ok).map(|entry| entry.path()).collect()
}
