//! A program on this machine that speaks.
//!
//! Owns: how it is called. Promises: it is called without a shell, gets little
//! of our environment, and is ended with all that it has started when its time
//! is over or nobody waits for it any more.

use std::path::Path;
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

/// Stands for the text.
const TEXT: &str = "{{Text}}";

/// Lets it speak. The text is an argument where `{{Text}}` stands, or comes by
/// its input; the sound is in the file where `{{OutputPath}}` stands, or comes
/// by its output.
///
/// # Errors
/// When it cannot be started, fails, takes too long or makes no sound.
pub(super) async fn speak(
    options: &SpeechOptions,
    text: &str,
    as_voice_message: bool,
    env: &Env,
) -> Result<Audio, String> {
    let program = options.command.as_deref().map(str::trim).filter(|it| !it.is_empty());
    let program = program.ok_or("not configured")?;
    let standard = if as_voice_message { "opus" } else { "mp3" };
    let format = options.format().unwrap_or(standard).to_owned();
    let audio = sound(Vec::new(), format);
    let failed = |error: std::io::Error| error.to_string();
    let dir = blocking(tempfile::tempdir).await.map_err(std::io::Error::from).flatten();
    let dir = dir.map_err(failed)?;
    let path = dir.path().join(format!("speech{}", audio.extension));
    let has_text = options.args.iter().any(|arg| arg.contains(TEXT));
    let args = options.args.iter().map(|arg| filled(arg, text, dir.path(), &path));
    let mut command = Command::new(program);
    command
        .args(args)
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
    let input = if has_text { "" } else { text };
    let limit = options.timeout();
    let said = tokio::time::timeout(limit, run(&mut child, input)).await;
    if child.id().is_none() {
        group.leave();
    }
    let said = said.unwrap_or_else(|_| Err(format!("no end within {} ms", limit.as_millis())))?;
    let bytes = match read(&path).await? {
        Some(bytes) => bytes,
        None => said,
    };
    if bytes.is_empty() {
        return Err("the program made no audio".into());
    }
    Ok(Audio { bytes, ..audio })
}

fn filled(arg: &str, text: &str, dir: &Path, path: &Path) -> String {
    if arg == TEXT && text.starts_with('-') {
        // Programs would take it for an option.
        return format!(" {text}");
    }
    // The text last: what it says is not to be filled in.
    arg.replace("{{OutputPath}}", &path.to_string_lossy())
        .replace("{{OutputDir}}", &dir.to_string_lossy())
        .replace("{{OutputBase}}", &path.with_extension("").to_string_lossy())
        .replace(TEXT, text)
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

async fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match tokio::fs::metadata(path).await {
        Err(_) => Ok(None),
        Ok(found) if found.len() > u64::try_from(AUDIO_MAX).unwrap_or(u64::MAX) => Err(too_large()),
        Ok(_) => tokio::fs::read(path).await.map(Some).map_err(|error| error.to_string()),
    }
}

fn too_large() -> String {
    format!("the audio has more than {AUDIO_MAX} bytes")
}
