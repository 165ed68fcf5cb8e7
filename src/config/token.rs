//! The generated gateway token.
//!
//! Owns: `<state_dir>/gateway-token`. Promises: it is made once, from 32 bytes
//! of the system's randomness, and only its owner can read it. Must not: write
//! the user's config file.

use std::io::{self, Read};
use std::path::Path;

use super::ConfigError;
use crate::store::atomic::{OnPath, create_private};
use crate::support::{Secret, hex, open_file};

/// 256 bits: beyond guessing, whatever the rate limit.
const TOKEN_BYTES: usize = 32;
/// Longer than any token somebody would put there by hand.
const READ_LIMIT: u64 = 4096;

/// The token in the file, `None` when there is no file.
pub(super) fn read(path: &Path) -> Result<Option<Secret>, ConfigError> {
    let file = match open_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.on_path("read", path)?,
    };
    let mut bytes = Vec::new();
    file.take(READ_LIMIT).read_to_end(&mut bytes).on_path("read", path)?;
    let token = String::from_utf8(bytes).map(Secret::new).ok();
    match token.filter(|token| !token.is_empty()) {
        Some(token) => Ok(Some(token)),
        None => Err(ConfigError::BadTokenFile { path: path.to_owned() }),
    }
}

/// The token in the file; makes the file when there is none.
pub(super) fn read_or_create(path: &Path) -> Result<Secret, ConfigError> {
    if let Some(token) = read(path)? {
        return Ok(token);
    }
    let token = random_token()?;
    if create_private(path, format!("{}\n", token.expose()).as_bytes())? {
        return Ok(token);
    }
    // Another process was faster: there must be one token, so it is theirs.
    read(path)?.ok_or_else(|| ConfigError::BadTokenFile { path: path.to_owned() })
}

fn random_token() -> Result<Secret, ConfigError> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(ConfigError::NoRandom)?;
    Ok(Secret::new(hex(bytes)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_token_is_made_once_long_and_private() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state/gateway-token");
        assert!(read(&path).unwrap().is_none());
        let token = read_or_create(&path).unwrap();
        assert_eq!(token.expose().len(), 2 * TOKEN_BYTES);
        assert!(token.expose().chars().all(|c| c.is_ascii_hexdigit()));
        assert!(read_or_create(&path).unwrap().matches(token.expose()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let other = read_or_create(&home.path().join("other")).unwrap();
        assert!(!other.matches(token.expose()));
    }

    #[test]
    fn processes_that_race_agree_on_one_token() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("gateway-token");
        let tokens: Vec<String> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| read_or_create(&path).unwrap().expose().to_owned()))
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]));
    }

    #[test]
    fn an_empty_file_is_an_error_that_says_what_to_do() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("gateway-token");
        fs::write(&path, " \n").unwrap();
        let error = read_or_create(&path).unwrap_err().to_string();
        assert!(error.contains("delete it"), "{error}");
    }
}
