//! What of the files goes into the prompt, within limits.
//!
//! Promises: a text that is cut says so and where the rest is; each file and
//! all of them together keep to their limits. Lengths are in characters.

use std::path::PathBuf;
use std::sync::Arc;

use super::BootstrapFile;

/// With less room than this a file is left out.
const MIN_ROOM: usize = 64;
/// Of a text that is cut, so much is its beginning …
const HEAD_PERCENT: usize = 70;
/// … and so much its end; the rest is for the mark between them.
const TAIL_PERCENT: usize = 20;

/// Who is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// The user, alone with the agent.
    Direct,
    /// Several people. What is private stays out.
    Shared,
    /// A job that nobody watches.
    Job,
    /// A sub-agent: how to work, and with what.
    SubAgent,
}

impl Audience {
    /// The files that such a session gets, in order. `HEARTBEAT.md` is for
    /// heartbeats, which are told to read it.
    pub const fn files(self) -> &'static [BootstrapFile] {
        use BootstrapFile::{Agents, Bootstrap, Identity, Memory, Soul, Tools, User};
        match self {
            Self::Direct => &[Agents, Soul, Tools, Identity, User, Bootstrap, Memory],
            Self::Shared => &[Agents, Soul, Tools, Identity, User, Bootstrap],
            Self::Job => &[Agents, Soul, Tools, Identity, User],
            Self::SubAgent => &[Agents, Tools],
        }
    }
}

/// Characters that files may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Each.
    pub one: usize,
    /// All together.
    pub total: usize,
}

/// One file, ready for the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedFile {
    /// Which one.
    pub file: BootstrapFile,
    /// Where it is, or would be.
    pub path: PathBuf,
    /// Whether it is not there.
    pub is_missing: bool,
    /// What the model gets; `None` for nothing.
    pub text: Option<String>,
    /// Whether that is less than all of it.
    pub is_truncated: bool,
}

/// All files, ready for the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injected {
    /// In the order of the prompt.
    pub files: Vec<InjectedFile>,
}

impl Injected {
    /// No files.
    pub const fn nothing() -> Self {
        Self { files: Vec::new() }
    }

    /// Files that were cut or left out.
    pub fn truncated(&self) -> impl Iterator<Item = &InjectedFile> {
        self.files.iter().filter(|file| file.is_truncated)
    }
}

/// A file as it is in the workspace; `None` when it is not there.
pub type Source = (BootstrapFile, PathBuf, Option<Arc<str>>);

/// Cuts the files to their limits.
pub fn inject(sources: Vec<Source>, limits: Limits) -> Injected {
    let mut room = limits.total;
    let files = sources.into_iter().map(|(file, path, content)| {
        let Some(content) = content else {
            let text = missing(file, &path).filter(|text| chars(text) <= room);
            room -= text.as_deref().map_or(0, chars);
            return InjectedFile { file, path, is_missing: true, text, is_truncated: false };
        };
        let content = content.trim_end();
        let raw_chars = chars(content);
        let limit = limits.one.min(room);
        let is_truncated = raw_chars > limit;
        let text = if !is_truncated {
            Some(content.to_owned()).filter(|text| !text.is_empty())
        } else if limit < MIN_ROOM.min(limits.one) {
            None
        } else {
            Some(cut(content, raw_chars, file.name(), limit))
        };
        room = room.saturating_sub(text.as_deref().map_or(0, chars));
        InjectedFile { file, path, is_missing: false, text, is_truncated }
    });
    let files = files.collect();
    Injected { files }
}

/// What is said of a file that is not there; nothing of those that need not be.
fn missing(file: BootstrapFile, path: &std::path::Path) -> Option<String> {
    let is_expected = !matches!(file, BootstrapFile::Bootstrap | BootstrapFile::Memory);
    is_expected.then(|| format!("[MISSING] Expected at: {}", path.display()))
}

/// Beginning and end of a text, with a mark between them; `limit` characters
/// at most.
fn cut(text: &str, length: usize, name: &str, limit: usize) -> String {
    let mark =
        format!("\n\n[…truncated: {name} has {length} characters; read it for the rest…]\n\n");
    let for_text = limit.saturating_sub(chars(&mark));
    let head = for_text.min(limit * HEAD_PERCENT / 100);
    let tail = (for_text - head).min(limit * TAIL_PERCENT / 100);
    let head: String = text.chars().take(head).collect();
    let tail: String = text.chars().skip(length - tail).collect();
    let whole = format!("{head}{mark}{tail}");
    whole.chars().take(limit).collect()
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    fn source(file: BootstrapFile, text: Option<&str>) -> Source {
        (file, PathBuf::from("/w").join(file.name()), text.map(Into::into))
    }

    fn length(file: &InjectedFile) -> usize {
        file.text.as_deref().map_or(0, chars)
    }

    fn texts(injected: &Injected) -> Vec<Option<&str>> {
        injected.files.iter().map(|file| file.text.as_deref()).collect()
    }

    #[test]
    fn files_that_fit_are_whole_and_missing_ones_are_named() {
        let sources = vec![
            source(BootstrapFile::Agents, Some("rules\n\n")),
            source(BootstrapFile::Soul, None),
            source(BootstrapFile::User, Some("")),
            source(BootstrapFile::Bootstrap, None),
            source(BootstrapFile::Memory, None),
        ];
        let injected = inject(sources, Limits { one: 100, total: 1000 });
        assert_eq!(
            texts(&injected),
            [Some("rules"), Some("[MISSING] Expected at: /w/SOUL.md"), None, None, None]
        );
        assert_eq!(injected.truncated().count(), 0);
    }

    #[test]
    fn a_long_file_keeps_beginning_and_end_and_says_that_it_was_cut() {
        let text = format!("{}{}", "a".repeat(500), "ü".repeat(500));
        let injected =
            inject(vec![source(BootstrapFile::Soul, Some(&text))], Limits { one: 400, total: 900 });
        let cut = injected.files[0].text.clone().unwrap();
        assert!(cut.starts_with("aaa") && cut.ends_with("üüü"), "{cut}");
        assert!(cut.contains("truncated: SOUL.md has 1000 characters"), "{cut}");
        assert!(injected.files[0].is_truncated && length(&injected.files[0]) <= 400);
    }

    #[test]
    fn what_has_no_room_left_is_left_out_and_counts_as_cut() {
        let long = "x".repeat(200);
        let sources = vec![
            source(BootstrapFile::Agents, Some(&long)),
            source(BootstrapFile::Soul, Some(&long)),
            source(BootstrapFile::Tools, None),
        ];
        let injected = inject(sources, Limits { one: 250, total: 220 });
        assert_eq!(injected.files[0].text.as_deref(), Some(&*long));
        assert_eq!(
            (injected.files[1].text.as_deref(), injected.files[1].is_truncated),
            (None, true)
        );
        assert_eq!(injected.files[2].text, None);
    }

    #[test]
    fn memory_is_for_the_user_alone_and_sub_agents_get_the_rules_only() {
        assert!(Audience::Direct.files().contains(&BootstrapFile::Memory));
        assert!(!Audience::Shared.files().contains(&BootstrapFile::Memory));
        assert_eq!(Audience::SubAgent.files(), [BootstrapFile::Agents, BootstrapFile::Tools]);
    }

    proptest! {
        #[test]
        fn limits_hold_for_any_texts(
            lengths in proptest::collection::vec(proptest::option::of(0..3000_usize), 1..6),
            one in 1..1500_usize,
            total in 1..4000_usize,
        ) {
            let texts: Vec<_> = lengths.iter().map(|length| length.map(|n| "é".repeat(n))).collect();
            let sources = texts.iter().zip(Audience::Direct.files());
            let sources = sources.map(|(text, file)| source(*file, text.as_deref())).collect();
            let injected = inject(sources, Limits { one, total });
            let sum: usize = injected.files.iter().map(length).sum();
            prop_assert!(sum <= total);
            for file in &injected.files {
                prop_assert!(file.is_missing || length(file) <= one);
            }
        }
    }
}
