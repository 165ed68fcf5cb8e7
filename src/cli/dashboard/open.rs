//! Opening a link in the browser of whoever sits here.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::cli::Surroundings;
use crate::config::Env;
use crate::store::atomic::{FileError, write_private};

/// Programs that hand a link to a browser end at once, or stay as the browser
/// itself; after this one that stays counts as the browser.
const HANDED_OVER: Duration = Duration::from_secs(3);
/// A browser that has to start first has read a page by then.
const IS_READ: Duration = Duration::from_secs(10);

/// Where somebody runs the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Before a screen; these programs open links, the first that is there.
    Screen(&'static [&'static str]),
    /// At the other end of this.
    Ssh(Ssh),
    /// Nobody sees a browser here.
    Nowhere,
}

/// A connection by SSH, as its server tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ssh {
    /// Who is logged in.
    pub user: Option<String>,
    /// The address of this machine that was connected to, and its port.
    pub server: Option<(String, String)>,
}

impl Place {
    /// Where this command runs.
    pub fn of(around: &Surroundings) -> Self {
        Self::find(&around.env, io::stdout().is_terminal(), cfg!(target_os = "macos"))
    }

    fn find(env: &Env, is_terminal: bool, is_mac: bool) -> Self {
        let get = |name| env.get(name);
        let connection = get("SSH_CONNECTION");
        if connection.is_some() || get("SSH_TTY").is_some() || get("SSH_CLIENT").is_some() {
            let mut words = connection.as_deref().unwrap_or_default().split_whitespace().skip(2);
            let server = words.next().zip(words.next());
            let server = server.map(|(host, port)| (host.to_owned(), port.to_owned()));
            return Self::Ssh(Ssh { user: get("USER").or_else(|| get("LOGNAME")), server });
        }
        if !is_terminal {
            return Self::Nowhere;
        }
        let is_wsl = get("WSL_DISTRO_NAME").is_some() || get("WSL_INTEROP").is_some();
        if is_mac {
            Self::Screen(&["open"])
        } else if is_wsl {
            Self::Screen(&["wslview", "xdg-open"])
        } else if get("DISPLAY").is_some() || get("WAYLAND_DISPLAY").is_some() {
            Self::Screen(&["xdg-open"])
        } else {
            Self::Nowhere
        }
    }
}

/// A page that leads to a link. Arguments of programs are seen by everybody on the
/// machine; what is in this file, only by its user. It is gone when this is dropped.
pub struct Page {
    path: PathBuf,
}

impl Page {
    /// Not below a hidden folder or a temporary one: browsers in a sandbox see neither.
    fn write(home: &Path, link: &str) -> Result<Self, FileError> {
        let path = home.join("clawgate-login.html");
        let link = link.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
        let html = format!(
            "<!doctype html><meta charset=\"utf-8\"><title>clawgate</title>\n\
             <meta http-equiv=\"refresh\" content=\"0;url={link}\">\n\
             <a href=\"{link}\">Log in</a>\n"
        );
        write_private(&path, html.as_bytes())?;
        Ok(Self { path })
    }

    /// Until the browser has read it, or nobody wants to wait.
    pub async fn stays(self) {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => {}
            () = tokio::time::sleep(IS_READ) => {}
        }
        drop(self);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Its code is soon good for nothing.
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens a link by a page in this home; none when no browser has it.
pub async fn open(place: &Place, link: &str, home: Option<&Path>) -> Option<Page> {
    let Place::Screen(programs) = place else { return None };
    let page = Page::write(home?, link).ok()?;
    tokio::select! {
        // Whoever does not wait leaves no page behind.
        biased;
        Ok(()) = tokio::signal::ctrl_c() => None,
        has_it = is_taken(programs, &page.path) => has_it.then_some(page),
    }
}

/// Whether one of these programs has taken the page.
async fn is_taken(programs: &[&str], page: &Path) -> bool {
    for program in programs {
        let started = Command::new(program)
            .arg(page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = started else { continue };
        match tokio::time::timeout(HANDED_OVER, child.wait()).await {
            Ok(Ok(status)) if !status.success() => {}
            Ok(Err(_)) => {}
            _ => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn place(env: &[(&str, &str)], is_terminal: bool, is_mac: bool) -> Place {
        let variables: BTreeMap<_, _> =
            env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let env = Env::new(move |name| variables.get(name).cloned(), None);
        Place::find(&env, is_terminal, is_mac)
    }

    #[test]
    fn a_browser_is_opened_only_where_somebody_sees_it() {
        let linux = Place::Screen(&["xdg-open"]);
        assert_eq!(place(&[("DISPLAY", ":0")], true, false), linux);
        assert_eq!(place(&[("WAYLAND_DISPLAY", "wayland-0")], true, false), linux);
        assert_eq!(place(&[], true, true), Place::Screen(&["open"]));
        let wsl = place(&[("WSL_DISTRO_NAME", "Debian")], true, false);
        assert_eq!(wsl, Place::Screen(&["wslview", "xdg-open"]));
        for (env, is_terminal, is_mac) in [
            (&[][..], true, false),
            (&[("DISPLAY", " ")], true, false),
            (&[("DISPLAY", ":0")], false, false),
            (&[], false, true),
        ] {
            assert_eq!(place(env, is_terminal, is_mac), Place::Nowhere, "{env:?}");
        }
    }

    #[test]
    fn over_ssh_nothing_is_opened_also_with_a_display_that_is_passed_on() {
        let env = [
            ("SSH_CONNECTION", "203.0.113.9 50000 192.0.2.7 2222"),
            ("USER", "ada"),
            ("DISPLAY", "localhost:10.0"),
        ];
        let server = Some(("192.0.2.7".to_owned(), "2222".to_owned()));
        let expected = Place::Ssh(Ssh { user: Some("ada".to_owned()), server });
        assert_eq!(place(&env, true, false), expected);
        let unknown = Place::Ssh(Ssh { user: None, server: None });
        assert_eq!(place(&[("SSH_TTY", "/dev/pts/1")], true, true), unknown);
    }
}
