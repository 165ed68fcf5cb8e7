//! How this program came onto the machine.
//!
//! Promises: says only what the place of the program tells. Must not: ask the
//! network or change anything.

use std::path::{Path, PathBuf};

/// How a program was installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `cargo install`.
    Cargo,
    /// Built here.
    Source,
    /// Homebrew.
    Homebrew,
    /// Nix.
    Nix,
    /// The system's packages.
    Package,
    /// The image of a container.
    Container,
    /// A file that somebody put there.
    Binary,
}

impl Origin {
    /// Its name in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Source => "source",
            Self::Homebrew => "homebrew",
            Self::Nix => "nix",
            Self::Package => "package",
            Self::Container => "container",
            Self::Binary => "binary",
        }
    }

    /// How it is brought up to date.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Cargo => "run `cargo install clawgate` again",
            Self::Source => "build the newer sources",
            Self::Homebrew => "run `brew upgrade clawgate`",
            Self::Nix => "update the Nix profile or configuration that it comes from",
            Self::Package => "upgrade the system's package",
            Self::Container => "pull the newer image and start a new container",
            Self::Binary => "put the newer program in its place",
        }
    }

    /// How the new one comes to run then; a new container runs it already.
    pub const fn then(self) -> &'static str {
        match self {
            Self::Container => "",
            _ => ", then stop the gateway and start it",
        }
    }

    fn of(program: &Path, is_contained: bool) -> Self {
        let text = program.to_string_lossy();
        let has = |part: &str| text.contains(part);
        if has("/.cargo/bin/") {
            Self::Cargo
        } else if has("/target/debug/") || has("/target/release/") {
            Self::Source
        } else if has("/Cellar/") || has("/homebrew/") {
            Self::Homebrew
        } else if has("/nix/store/") {
            Self::Nix
        } else if is_contained {
            Self::Container
        } else if ["/usr/bin/", "/usr/sbin/", "/bin/"].iter().any(|dir| text.starts_with(dir)) {
            Self::Package
        } else {
            Self::Binary
        }
    }
}

/// This program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Where it is; `None` when the system does not say.
    pub program: Option<PathBuf>,
    /// How it came there.
    pub origin: Origin,
    /// Whether another file has taken its place since it started.
    pub is_replaced: bool,
}

/// What the system appends to the path of a running program whose file is gone.
const GONE: &str = " (deleted)";

/// Looks where this program is. Reads two links, so call it where that may
/// block.
pub fn find() -> Installation {
    let shown = std::env::current_exe().ok();
    let is_contained =
        ["/.dockerenv", "/run/.containerenv"].iter().any(|it| Path::new(it).exists());
    let gone = shown.as_ref().and_then(|path| path.to_str()?.strip_suffix(GONE));
    let is_replaced = gone.is_some();
    let program = gone.map(PathBuf::from).or(shown);
    let origin = Origin::of(program.as_deref().unwrap_or(Path::new("")), is_contained);
    Installation { program, origin, is_replaced }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_program_tells_how_it_came_there() {
        for (path, origin) in [
            ("/home/u/.cargo/bin/clawgate", Origin::Cargo),
            ("/src/clawgate/target/release/clawgate", Origin::Source),
            ("/opt/homebrew/bin/clawgate", Origin::Homebrew),
            ("/nix/store/abc/bin/clawgate", Origin::Nix),
            ("/usr/bin/clawgate", Origin::Package),
            ("/usr/local/bin/clawgate", Origin::Binary),
        ] {
            assert_eq!(Origin::of(Path::new(path), false), origin, "{path}");
        }
        assert_eq!(Origin::of(Path::new("/usr/bin/clawgate"), true), Origin::Container);
    }

    #[test]
    fn only_a_program_that_was_replaced_has_to_be_started_again() {
        assert_eq!(Origin::Container.then(), "");
        assert!(Origin::Binary.then().contains("stop the gateway and start it"));
    }
}
