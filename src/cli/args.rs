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
/// From this number on it is of milliseconds: OpenClaw counts in those, and nobody waits
/// a quarter of an hour for an answer.
const MILLISECONDS_FROM: Duration = Duration::from_secs(1000);

/// How to reach the gateway.
#[derive(Debug, Clone, Default, Args)]
pub struct ConnectArgs {
    /// Address of the gateway; default: the one of this machine.
    #[arg(
        long,
        value_name = "URL",
        help = "Address of the gateway; needs --token or --password too [env: OPENCLAW_GATEWAY_URL] [default: that of this machine]"
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
    /// How long connecting and each answer may take.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = Timeout::parse,
        help = "How long connecting and each answer may take, such as 10s or 2500ms; a number alone means seconds, from 1000 on milliseconds as in OpenClaw [default: 30s]"
    )]
    pub timeout: Option<Timeout>,
}

/// How what is found or done is told.
#[derive(Debug, Clone, Copy, Args)]
pub struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A time that was given with a unit or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// In seconds, where there is no unit.
    written: Duration,
    has_unit: bool,
}

impl Timeout {
    /// So much.
    pub const fn of(time: Duration) -> Self {
        Self { written: time, has_unit: true }
    }

    /// The same where a number alone always means seconds.
    #[must_use]
    pub const fn in_seconds(self) -> Self {
        Self::of(self.written)
    }

    /// How much it is.
    pub fn time(self) -> Duration {
        let is_milliseconds = !self.has_unit && self.written >= MILLISECONDS_FROM;
        if is_milliseconds { self.written / 1000 } else { self.written }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (number, has_unit, per_second) = match text.strip_suffix("ms") {
            Some(number) => (number, true, 1000.0),
            None => text.strip_suffix('s').map_or((text, false, 1.0), |number| (number, true, 1.0)),
        };
        number
            .parse::<f64>()
            .ok()
            .and_then(|number| Duration::try_from_secs_f64(number / per_second).ok())
            .map(|written| Self { written, has_unit })
            .filter(|timeout| !timeout.time().is_zero() && timeout.time() <= LONGEST)
            .ok_or_else(|| "give a time above 0, such as 10, 0.5, 10s or 2500ms".to_owned())
    }
}

impl ConnectArgs {
    /// How long connecting and each answer may take.
    pub fn limit(&self) -> Duration {
        self.timeout.map_or(DEFAULT_LIMIT, Timeout::time)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_time_above_zero_that_a_clock_can_hold() {
        let time = |text: &str| Timeout::parse(text).map(Timeout::time);
        for (text, milliseconds) in [
            ("10", 10_000),
            ("0.5", 500),
            ("999", 999_000),
            ("10s", 10_000),
            ("1500s", 1_500_000),
            ("2500ms", 2500),
            ("86400000", 86_400_000),
        ] {
            assert_eq!(time(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["0", "-1", "x", "NaN", "inf", "1e19", "1e300", "", "s", "0ms", "10 h", "5m"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_large_number_is_of_milliseconds_as_in_openclaw_unless_only_seconds_are_meant() {
        let written = Timeout::parse("10000").unwrap();
        assert_eq!(written.time(), Duration::from_secs(10));
        assert_eq!(written.in_seconds().time(), Duration::from_secs(10_000));
    }
}
