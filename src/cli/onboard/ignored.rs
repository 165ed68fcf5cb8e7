//! Flags of OpenClaw for what is not done here anyway, so that its scripts run.
//!
//! Not derived from fields: nobody reads them, and a table is much less code.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches};

/// The flags, and of those with a value what that is called in errors.
const FLAGS: [(&str, Option<&str>); 9] = [
    ("flow", Some("FLOW")),
    ("skip-skills", None),
    ("skip-health", None),
    ("skip-ui", None),
    ("skip-search", None),
    ("skip-daemon", None),
    ("no-install-daemon", None),
    ("daemon-runtime", Some("DAEMON_RUNTIME")),
    ("node-manager", Some("NODE_MANAGER")),
];

/// They are taken, and that is all.
#[derive(Debug, Clone)]
pub struct IgnoredArgs;

impl Args for IgnoredArgs {
    fn augment_args(command: Command) -> Command {
        let flags = FLAGS.iter().map(|&(flag, value)| {
            let arg = Arg::new(flag).long(flag).hide(true);
            match value {
                Some(name) => arg.value_name(name),
                None => arg.action(ArgAction::SetTrue),
            }
        });
        let group = ArgGroup::new("IgnoredArgs").multiple(true);
        command.group(group.args(FLAGS.iter().map(|&(flag, _)| flag))).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for IgnoredArgs {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::Cli;

    #[test]
    fn flags_of_openclaw_for_what_is_not_done_here_are_taken() {
        let parse = |flags: &str| {
            Cli::try_parse_from(["clawgate", "onboard"].into_iter().chain(flags.split(' ')))
        };
        for flags in [
            "--flow quickstart --daemon-runtime node --node-manager npm",
            "--skip-skills --skip-health --skip-ui --skip-search --skip-daemon --no-install-daemon",
        ] {
            assert!(parse(flags).is_ok(), "{flags}");
        }
        for flags in ["--flow", "--skip-ui=yes", "--install-daemon --no-install-daemon"] {
            assert!(parse(flags).is_err(), "{flags}");
        }
    }
}
