//! The questions in their order.

use std::sync::Arc;

use serde_json::json;

use super::asker::{Asker, Stopped};
use super::changes::ConfigWriter;
use super::draft::Draft;
use super::ending::{self, Outcome};
use super::talk::Talk;
use super::{channels, gateway, model, remote, workspace};
use crate::config::Env;
use crate::support::Clock;

/// What this is, and what is dangerous about it.
const RISK: &str = "\
This gateway connects a language model with this machine: its agent reads and \
writes files in its workspace, runs the commands that you allow, and talks to \
the people that you let in.

A model can be wrong, and what it reads (a page, a mail, a message of somebody \
else) can talk it into things. So:
- Keep the gateway on this machine, or behind TLS and a token.
- Let only people write to it whom you would let use your keyboard.
- Leave the approval of commands switched on.
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

/// What the script works with.
pub struct Setup {
    /// The surroundings.
    pub env: Env,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Who writes the config file.
    pub writer: Box<dyn ConfigWriter>,
    /// What this machine is to be.
    pub mode: Mode,
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
/// unless the writing itself failed half-way, which the error says.
pub async fn run(asker: &mut dyn Asker, mut setup: Setup) -> Result<Outcome, Stopped> {
    let mut talk = Talk(asker);
    let mut draft = Draft::open(setup.env.clone(), Arc::clone(&setup.clock)).await?;
    talk.note("intro", "OpenClaw setup", "").await?;
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
    match setup.mode {
        Mode::Remote => remote::choose(&mut talk, &mut draft).await?,
        Mode::Local => {
            model::choose(&mut talk, &mut draft, setup.skips_check).await?;
            channels::choose(&mut talk, &mut draft, setup.skips_check).await?;
            workspace::choose(&mut talk, &mut draft, setup.workspace.as_deref()).await?;
            gateway::choose(&mut talk, &mut draft).await?;
        }
    }
    write(&mut talk, &mut draft, &mut setup).await
}

async fn write(
    talk: &mut Talk<'_>,
    draft: &mut Draft,
    setup: &mut Setup,
) -> Result<Outcome, Stopped> {
    talk.note("summary", "What will be", ending::summary(draft, setup.mode)).await?;
    let changed = !draft.is_unchanged();
    if changed {
        let question = format!("Write this to {}?", draft.settings.file.path.display());
        if !talk.confirm("write", question, true).await? {
            return Err(Stopped::Cancelled("nothing was written".into()));
        }
    }
    // As in the original: its apps look whether somebody has been here.
    let run = json!({
        "lastRunAt": ending::iso(draft.clock.now_ms()),
        "lastRunVersion": env!("CARGO_PKG_VERSION"),
        "lastRunCommand": setup.command,
        "lastRunMode": setup.mode.as_str(),
    });
    draft.set(vec![(vec!["wizard"], run)]).await?;
    let needs_restart = loop {
        talk.0.seal()?;
        talk.0.tell("Writing");
        if let Some(key) = draft.key.clone() {
            key.store(draft).await?;
        }
        match setup.writer.merge(draft.patch()).await {
            Ok(written) => break written.needs_restart && changed,
            Err(why) => {
                let question = format!("The config file is not written: {why}. Try again?");
                if !talk.confirm("writeFailed", question, true).await? {
                    return Err(Stopped::Failed(format!("the config file is not written: {why}")));
                }
            }
        }
    };
    if setup.mode == Mode::Local {
        workspace::make(draft).await?;
    }
    let outcome = Outcome::of(draft, setup.mode, changed, needs_restart);
    // It is written, whether somebody reads this or not.
    let _ = talk.note("done", "Done", ending::text(&outcome)).await;
    Ok(outcome)
}
