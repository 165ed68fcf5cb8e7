//! Flags that every client command has.

use std::convert::Infallible;
use std::time::Duration;

use clap::Args;

use crate::support::{Fingerprint, Secret};

use super::client::{Client, Target};
use super::{CliError, Surroundings};

/// A gateway that has just started or is busy still answers within this.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);
/// A year; the time of a clock cannot be added to without end.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// How to reach the gateway.
#[derive(Debug, Clone, Default, Args)]
pub struct ConnectArgs {
    /// Address of the gateway; default: the one of this machine.
    #[arg(
        long,
        value_name = "URL",
        help = "Address of the gateway [env: OPENCLAW_GATEWAY_URL] [default: that of this machine]"
    )]
    pub url: Option<String>,
    /// The gateway's token.
    #[arg(
        long,
        value_name = "TOKEN",
        value_parser = secret,
        help = "The gateway's token [env: OPENCLAW_GATEWAY_TOKEN]"
    )]
    pub token: Option<Secret>,
    /// The gateway's password.
    #[arg(
        long,
        value_name = "PASSWORD",
        value_parser = secret,
        help = "The gateway's password [env: OPENCLAW_GATEWAY_PASSWORD]"
    )]
    pub password: Option<Secret>,
    /// SHA-256 fingerprint of the gateway's certificate; no other is believed
    #[arg(long, value_name = "SHA256")]
    pub tls_fingerprint: Option<Fingerprint>,
    /// Print JSON for programs instead of text for people
    #[arg(long)]
    pub json: bool,
    /// How long connecting and each answer may take [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
}

impl ConnectArgs {
    /// How long connecting and each answer may take.
    pub fn limit(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_LIMIT)
    }

    /// Which gateway is meant.
    pub fn target(&self, around: &Surroundings) -> Result<Target, CliError> {
        Ok(Target::resolve(self, |name| around.env.get(name), &around.local)?)
    }

    /// Whether that is another one than the gateway that runs on this machine's state.
    pub fn is_elsewhere(&self, around: &Surroundings) -> bool {
        let env = |name: &str| around.env.get(name);
        Target::is_elsewhere(self, env, &around.local, around.running)
    }

    /// Connects to the gateway that is meant.
    pub async fn connect(&self, around: &Surroundings) -> Result<Client, CliError> {
        Ok(Client::connect(&self.target(around)?, self.limit()).await?)
    }
}

#[allow(clippy::unnecessary_wraps)] // the form that clap asks for
fn secret(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|limit| !limit.is_zero() && *limit <= LONGEST)
        .ok_or_else(|| "give a number of seconds above 0, such as 10 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_number_of_seconds_above_zero_that_a_clock_can_hold() {
        assert_eq!(seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "x", "NaN", "inf", "1e19", "1e300", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
