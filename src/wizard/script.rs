//! The questions in their order.

use std::sync::Arc;

use super::asker::{Asker, Stopped};
use super::changes::{ConfigWriter, Written};
use super::draft::Draft;
use super::ending::{self, Outcome};
use super::step::StepOption;
use super::talk::Talk;
use super::{channels, gateway, model, remote, workspace};
use crate::config::{Env, GatewayMode};
use crate::support::{Clock, json};

/// What this is, and what is dangerous about it.
const RISK: &str = "\
This gateway connects a language model with this machine: its agent reads and \
writes files in its workspace, runs commands as your user, and talks to the people \
that you let in. By default no command is asked about.

A model can be wrong, and what it reads (a page, a mail, a message of somebody \
else) can talk it into things. So:
- Keep the gateway on this machine, or behind TLS and a token.
- Let only people write to it whom you would let use your keyboard.
- Have commands asked about: with `tools.exec.security` set to allowlist and \
`tools.exec.ask` to on-miss, a person sees each one that is not on your list.
- Keep secrets out of the workspace.

`clawgate security audit` looks at what your configuration opens to others.";

/// Whether this machine is to run a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// It is.
    #[default]
    Local,
    /// It is a client of another one.
    Remote,
}

impl Mode {
    /// The name in the config file and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

/// A part of the setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Model and key.
    Model,
    /// Chat services.
    Channels,
    /// Folder and name of the agent.
    Workspace,
    /// Port, address and who is let in.
    Gateway,
}

impl Section {
    /// All of them, in the order in which they are asked.
    pub const ALL: [Self; 4] = [Self::Model, Self::Channels, Self::Workspace, Self::Gateway];

    /// Its name in flags and answers, and for people.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Model => ("model", "Model and key"),
            Self::Channels => ("channels", "Channels"),
            Self::Workspace => ("workspace", "Workspace and name of the agent"),
            Self::Gateway => ("gateway", "Port, address and token of the gateway"),
        }
    }
}

/// What the script works with.
pub struct Setup {
    /// Only these parts, without the warning at the begin; they are asked for when
    /// there is none. `None` is all, with the warning.
    pub sections: Option<Vec<Section>>,
    /// The surroundings.
    pub env: Env,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Who writes the config file.
    pub writer: Box<dyn ConfigWriter>,
    /// What this machine is to be, when somebody says so. It stays what it is otherwise, and
    /// parts that are named are those of a gateway of its own.
    pub mode: Option<Mode>,
    /// The folder that somebody wants the agent to work in.
    pub workspace: Option<String>,
    /// Whether keys and tokens are taken without trying them.
    pub skips_check: bool,
    /// Which command or method this is, for the config file.
    pub command: &'static str,
}

/// Asks everything and writes it down at the end.
///
/// # Errors
/// When nobody answers any more, or it cannot go on; nothing was written then,
/// unless the error says what.
pub async fn run(asker: &mut dyn Asker, mut setup: Setup) -> Result<Outcome, Stopped> {
    let mut talk = Talk(asker);
    let mut draft = Draft::open(setup.env.clone(), Arc::clone(&setup.clock)).await?;
    let mode = mode(&setup, &draft);
    talk.note("intro", "OpenClaw setup", "").await?;
    let sections = match setup.sections.take() {
        None => {
            warn(&mut talk, &draft).await?;
            Section::ALL.to_vec()
        }
        Some(chosen) if chosen.is_empty() && mode == Mode::Local => parts(&mut talk).await?,
        Some(chosen) => chosen,
    };
    if mode == Mode::Remote {
        remote::choose(&mut talk, &mut draft).await?;
        return write(&mut talk, &mut draft, &mut setup, mode).await;
    }
    for section in sections {
        let (talk, draft) = (&mut talk, &mut draft);
        match section {
            Section::Model => model::choose(talk, draft, setup.skips_check).await?,
            Section::Channels => channels::choose(talk, draft, setup.skips_check).await?,
            Section::Workspace => {
                workspace::choose(talk, draft, setup.workspace.as_deref()).await?;
            }
            Section::Gateway => gateway::choose(talk, draft, setup.mode.is_some()).await?,
        }
    }
    write(&mut talk, &mut draft, &mut setup, mode).await
}

/// What this machine is to be.
fn mode(setup: &Setup, draft: &Draft) -> Mode {
    let names_parts = setup.sections.as_ref().is_some_and(|chosen| !chosen.is_empty());
    let usual = match draft.settings.gateway.mode {
        GatewayMode::Remote if !names_parts => Mode::Remote,
        _ => Mode::Local,
    };
    setup.mode.unwrap_or(usual)
}

/// Says what this is, and goes on with who accepts it.
async fn warn(talk: &mut Talk<'_>, draft: &Draft) -> Result<(), Stopped> {
    talk.note("security", "What this is, and its risk", RISK).await?;
    if !talk.confirm("risk", "Do you accept this?", false).await? {
        return Err(Stopped::Cancelled("the risk was not accepted; nothing was written".into()));
    }
    if draft.settings.file.exists {
        let text = format!(
            "{} is there. Only what you answer differently is changed; the rest of it stays, \
             with its comments, and the version of now is kept beside it.",
            draft.settings.file.path.display()
        );
        talk.note("existing", "Your configuration", text).await?;
    }
    Ok(())
}

/// Asks which parts to go through.
async fn parts(talk: &mut Talk<'_>) -> Result<Vec<Section>, Stopped> {
    let options = Section::ALL.map(|section| {
        let (name, label) = section.names();
        StepOption::new(name, label)
    });
    let chosen = talk.many("sections", "What do you want to change?", options.to_vec()).await?;
    if chosen.is_empty() {
        return Err(Stopped::Cancelled("nothing was chosen; nothing was written".into()));
    }
    let is_chosen = |section: &Section| chosen.iter().any(|name| name == section.names().0);
    Ok(Section::ALL.into_iter().filter(is_chosen).collect())
}

async fn write(
    talk: &mut Talk<'_>,
    draft: &mut Draft,
    setup: &mut Setup,
    mode: Mode,
) -> Result<Outcome, Stopped> {
    talk.note("summary", "What will be", ending::summary(draft, mode)).await?;
    // As in the original: its apps look whether somebody has been here.
    let is_first = draft.written("/wizard/lastRunAt").is_none();
    let changed = is_first || !draft.is_unchanged();
    let mut needs_restart = false;
    if changed {
        let question = format!("Write this to {}?", draft.settings.file.path.display());
        if !talk.confirm("write", question, true).await? {
            return Err(Stopped::Cancelled("nothing was written".into()));
        }
        let run = json!({
            "lastRunAt": ending::iso(draft.clock.now_ms()),
            "lastRunVersion": env!("CARGO_PKG_VERSION"),
            "lastRunCommand": setup.command,
            "lastRunMode": mode.as_str(),
        });
        draft.set(vec![(vec!["wizard"], run)]).await?;
        needs_restart = save(talk, draft, setup).await?.needs_restart;
    }
    if mode == Mode::Local {
        workspace::make(draft, changed).await?;
    }
    let outcome = Outcome::of(draft, mode, changed, needs_restart);
    // It is written, whether somebody reads this or not.
    let _ = talk.note("done", "Done", ending::text(&outcome)).await;
    Ok(outcome)
}

/// Stores the key and writes the config file, as long as the user tries again.
async fn save(
    talk: &mut Talk<'_>,
    draft: &mut Draft,
    setup: &mut Setup,
) -> Result<Written, Stopped> {
    loop {
        talk.0.seal()?;
        talk.0.tell("Writing");
        if let Some(key) = draft.key.clone() {
            key.store(draft).await?;
        }
        match setup.writer.write(draft.changes()).await {
            Ok(written) => return Ok(written),
            Err(why) => {
                let question = format!("The config file is not written: {why}. Try again?");
                let key = match talk.confirm("writeFailed", question, true).await {
                    Ok(true) => continue,
                    // Whoever leaves here leaves not everything as it was.
                    Ok(false) | Err(_) if draft.key.is_some() => "; the key is stored",
                    Ok(false) => "",
                    Err(stopped) => return Err(stopped),
                };
                let text = format!("the config file is not written: {why}{key}");
                return Err(Stopped::Failed(text));
            }
        }
    }
}
