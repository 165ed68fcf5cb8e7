//! A program on this machine that speaks.
//!
//! Owns: how it is called. Promises: it is called without a shell, gets little
//! of our environment, and is ended with all that it has started when its time
//! is over or nobody waits for it any more.

use std::mem;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::Audio;
use super::remote::{AUDIO_MAX, sound};
use crate::config::Env;
use crate::config::voice::SpeechOptions;
use crate::support::{ProcessGroup, blocking};

/// What it finds of our environment.
const PASSED: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR"];

/// Stands for the text, in lower case.
const TEXT: &str = "{{text}}";
/// What the file is called without its ending, as in the original.
const BASE: &str = "speech";
/// How files of sound end.
const ENDINGS: [&str; 7] = ["wav", "mp3", "opus", "ogg", "m4a", "flac", "aac"];
/// Where the first page of Ogg has what is in it.
const OGG_BODY: usize = 28;

/// Lets it speak. The text is an argument where `{{Text}}` stands, or comes by
/// its input; the sound is in the file where `{{OutputPath}}` stands, in another one
/// in its folder, or comes by its output.
///
/// # Errors
/// When it cannot be started, fails, takes too long or makes no sound.
pub(super) async fn speak(
    options: &SpeechOptions,
    text: &str,
    as_voice_message: bool,
    env: &Env,
) -> Result<Audio, String> {
    let mut line = line(options).await.into_iter();
    let program = line.next().ok_or("not configured")?;
    let args: Vec<_> = line.chain(options.args.iter().cloned()).collect();
    let standard = if as_voice_message { "opus" } else { "mp3" };
    let format = options.format().unwrap_or(standard).to_owned();
    let dir = blocking(tempfile::tempdir).await.map_err(std::io::Error::from).flatten();
    let dir = dir.map_err(|error| error.to_string())?;
    let extension = sound(Vec::new(), format.clone()).extension;
    let path = dir.path().join(format!("{BASE}{extension}"));
    let (folder, file) = (dir.path().to_string_lossy(), path.to_string_lossy());
    let places =
        [("text", text), ("outputpath", &*file), ("outputdir", &*folder), ("outputbase", BASE)];
    let mut command = Command::new(&program);
    command
        .args(args.iter().map(|arg| filled(arg, &places, text)))
        .env_clear()
        .envs(PASSED.iter().filter_map(|name| Some((name, env.get(name)?))))
        .envs(options.env.iter().map(|(name, value)| (name, value.expose())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = &options.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let mut group = ProcessGroup::of(&child);
    let has_text = args.iter().any(|arg| squeezed(arg).contains(TEXT));
    let input = if has_text { "" } else { text };
    let limit = options.timeout();
    let said = tokio::time::timeout(limit, run(&mut child, input)).await;
    if child.id().is_none() {
        group.leave();
    }
    let said = said.unwrap_or_else(|_| Err(format!("no end within {} ms", limit.as_millis())))?;
    let file = written(dir.path(), &path).await;
    let bytes = match &file {
        Some(file) => read(file).await?,
        None => said,
    };
    if bytes.is_empty() {
        return Err("the program made no audio".into());
    }
    let named = file.as_deref().filter(|file| *file != path).and_then(ending);
    // What is printed unasked, and begins like no format, is bare samples: no player takes them
    // for anything else.
    let is_bare = file.is_none() && options.format().is_none();
    let told = sniffed(&bytes).or(named).or(is_bare.then_some("pcm"));
    let format = told.map_or(format, str::to_owned);
    Ok(sound(bytes, format))
}

/// The program and its first arguments. The path of a program may have spaces in it.
async fn line(options: &SpeechOptions) -> Vec<String> {
    let command = options.command.as_deref().unwrap_or_default().trim();
    let path = Path::new(options.cwd.as_deref().unwrap_or_default()).join(command);
    if command.contains('/') && blocking(move || path.is_file()).await == Ok(true) {
        return vec![command.to_owned()];
    }
    words(command)
}

/// The words of a command line: quotes hold one together, and nothing else is special, as
/// in the original.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote): (String, Option<char>) = (String::new(), None);
    for letter in line.trim().chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            None if letter.is_whitespace() => {
                words.extend(Some(mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            _ => word.push(letter),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// An argument with what its `{{places}}` stand for. What they stand for is not filled in.
fn filled(arg: &str, places: &[(&str, &str)], text: &str) -> String {
    if squeezed(arg) == TEXT && text.starts_with('-') {
        // Programs would take it for an option.
        return format!(" {text}");
    }
    let fill = |name: &str| {
        let place = places.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
        place.map(|(_, meant)| *meant)
    };
    let (mut whole, mut rest) = (String::new(), arg);
    while let Some((before, after)) = rest.split_once("{{") {
        whole.push_str(before);
        let place = after.split_once("}}").and_then(|(name, behind)| Some((fill(name)?, behind)));
        let (meant, behind) = place.unwrap_or(("{{", after));
        whole.push_str(meant);
        rest = behind;
    }
    whole.push_str(rest);
    whole
}

/// Without white space and in lower case.
fn squeezed(arg: &str) -> String {
    arg.split_whitespace().collect::<String>().to_ascii_lowercase()
}

/// The file with the sound: the one that was asked for, else one that the program has
/// called otherwise, first such as begins like it.
async fn written(dir: &Path, path: &Path) -> Option<PathBuf> {
    let (dir, path) = (dir.to_owned(), path.to_owned());
    blocking(move || found(&dir, path)).await.ok().flatten()
}

fn found(dir: &Path, path: PathBuf) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    let mut best: Option<(bool, PathBuf)> = None;
    for entry in std::fs::read_dir(dir).ok()?.map_while(Result::ok) {
        let is_other = !entry.file_name().to_string_lossy().starts_with(BASE);
        let file = (is_other, entry.path());
        if ending(&file.1).is_some() && best.as_ref().is_none_or(|best| file < *best) {
            best = Some(file);
        }
    }
    best.map(|(_, file)| file)
}

/// How a file of sound ends.
fn ending(file: &Path) -> Option<&'static str> {
    let ending = file.extension()?.to_str()?;
    ENDINGS.into_iter().find(|known| known.eq_ignore_ascii_case(ending))
}

/// How sound is written, as it says itself: programs do not go by the name of their file.
fn sniffed(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'R', b'I', b'F', b'F', ..] => Some("wav"),
        [b'f', b'L', b'a', b'C', ..] => Some("flac"),
        [b'O', b'g', b'g', b'S', ..] => {
            let body = bytes.get(OGG_BODY..).unwrap_or_default();
            Some(if body.starts_with(b"OpusHead") { "opus" } else { "ogg" })
        }
        [b'I', b'D', b'3', ..] => Some("mp3"),
        // A frame of layer III.
        [0xff, second, ..] if second & 0xe6 == 0xe2 => Some("mp3"),
        // A frame of ADTS.
        [0xff, second, ..] if second & 0xf6 == 0xf0 => Some("aac"),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some("m4a"),
        _ => None,
    }
}

/// Gives it the text and reads what it says until it ends.
async fn run(child: &mut Child, input: &str) -> Result<Vec<u8>, String> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let telling = async move {
        if let Some(mut stdin) = stdin {
            // A program that takes its text elsewhere need not read.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let listening = async {
        let mut said = Vec::new();
        if let Some(stdout) = stdout {
            let limit = u64::try_from(AUDIO_MAX + 1).unwrap_or(u64::MAX);
            stdout.take(limit).read_to_end(&mut said).await.map_err(|it| it.to_string())?;
        }
        if said.len() > AUDIO_MAX { Err(too_large()) } else { Ok(said) }
    };
    let ((), said) = tokio::join!(telling, listening);
    let said = said?;
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if status.success() { Ok(said) } else { Err(format!("the program failed ({status})")) }
}

async fn read(path: &Path) -> Result<Vec<u8>, String> {
    let path = path.to_owned();
    let read = move || {
        let failed = |error: std::io::Error| error.to_string();
        let found = path.metadata().map_err(failed)?;
        if found.len() > u64::try_from(AUDIO_MAX).unwrap_or(u64::MAX) {
            return Err(too_large());
        }
        std::fs::read(path).map_err(failed)
    };
    blocking(read).await.unwrap_or_else(|error| Err(error.to_string()))
}

fn too_large() -> String {
    format!("the audio has more than {AUDIO_MAX} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_has_words_that_quotes_hold_together() {
        for (line, expected) in [
            (
                " say  -v 'My Voice' -o \"{{OutputPath}}\" ",
                vec!["say", "-v", "My Voice", "-o", "{{OutputPath}}"],
            ),
            ("/opt/'my tools'/speak", vec!["/opt/my tools/speak"]),
            ("say \"it's\"", vec!["say", "it's"]),
            (" '' ", vec![]),
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
    }

    #[test]
    fn places_are_filled_once_however_they_are_written() {
        let text = "a {{OutputDir}}";
        let places = [("text", text), ("outputdir", "/d"), ("outputbase", BASE)];
        let fill = |arg: &str| filled(arg, &places, text);
        assert_eq!(fill("{{OutputDir}}/{{ outputbase }}.wav"), "/d/speech.wav");
        assert_eq!(fill("<{{TEXT}}>"), "<a {{OutputDir}}>");
        assert_eq!(fill("{{other}} {{ {{Text"), "{{other}} {{ {{Text");
        assert_eq!(filled("{{ text }}", &places, "-x"), " -x");
    }

    #[test]
    fn sound_says_how_it_is_written() {
        let mut ogg = b"OggS".to_vec();
        assert_eq!(sniffed(&ogg), Some("ogg"));
        ogg.resize(OGG_BODY, 0);
        ogg.extend(b"OpusHead");
        assert_eq!(sniffed(&ogg), Some("opus"));
        for (bytes, format) in [
            (&b"RIFF1234WAVE"[..], Some("wav")),
            (b"fLaC", Some("flac")),
            (b"ID3", Some("mp3")),
            (&[0xff, 0xfb, 0x90], Some("mp3")),
            (&[0xff, 0xf1, 0x50], Some("aac")),
            // Samples of next to silence.
            (&[0xff, 0xff, 0x00], None),
            (b"1234ftypM4A ", Some("m4a")),
            (b"other", None),
            (b"", None),
        ] {
            assert_eq!(sniffed(bytes), format);
        }
    }
}
