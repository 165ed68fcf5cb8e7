//! Which of our ways of speaking a connection has chosen.

use super::decode::Unknown;

/// A protocol version of the standard profile that we speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// The promise: OpenClaw up to 2026.5.7.
    V3,
    /// What later clients insist on: the same frames, chat deltas with
    /// `deltaText`, hello with `pluginSurfaceUrls`.
    V4,
}

impl Version {
    /// All that we speak, highest first.
    const TABLE: [(u64, Self); 2] = [(4, Self::V4), (3, Self::V3)];

    /// The highest version in `min..=max` that we speak.
    pub fn negotiate(min: u64, max: u64) -> Option<Self> {
        Self::TABLE
            .into_iter()
            .find(|(number, _)| (min..=max).contains(number))
            .map(|(_, version)| version)
    }

    /// Whether it is later than the recorded one.
    pub const fn is_newer(self) -> bool {
        matches!(self, Self::V4)
    }

    /// The number on the wire.
    pub const fn number(self) -> u64 {
        match self {
            Self::V3 => 3,
            Self::V4 => 4,
        }
    }
}

/// How a connection speaks; decided by its `connect` (`docs/protocol.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The original's protocol, strict.
    Standard(Version),
    /// The older chat API: lenient, increments instead of snapshots, own error codes.
    Simple,
}

impl Profile {
    /// Whether it is of a later protocol than the recorded one.
    pub const fn is_newer(self) -> bool {
        match self {
            Self::Standard(version) => version.is_newer(),
            Self::Simple => false,
        }
    }

    /// What becomes of members that a method does not know.
    pub const fn unknown_params(self) -> Unknown {
        match self {
            Self::Standard(Version::V3) => Unknown::Refuse,
            Self::Standard(Version::V4) => Unknown::RefuseButNewer,
            Self::Simple => Unknown::Ignore,
        }
    }

    /// The name of it in metrics.
    pub const fn dialect(self) -> &'static str {
        match self {
            Self::Standard(Version::V3) => "v3",
            Self::Standard(Version::V4) => "v4",
            Self::Simple => "simple",
        }
    }

    /// The number that hello names.
    pub const fn protocol_number(self) -> u64 {
        match self {
            Self::Standard(version) => version.number(),
            Self::Simple => Version::V3.number(),
        }
    }
}

/// User agents of dashboards, which append deltas and read some answers in a
/// form of their own.
const DASHBOARDS: [&str; 2] = ["openclaw-dashboard/", "openclaw-browser/"];

/// Whether a client is such a dashboard, by its user agent.
pub fn is_dashboard(user_agent: &str) -> bool {
    DASHBOARDS.iter().any(|prefix| user_agent.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_wins() {
        assert_eq!(Version::negotiate(3, 3), Some(Version::V3));
        assert_eq!(Version::negotiate(1, 9), Some(Version::V4));
        assert_eq!(Version::negotiate(4, 4), Some(Version::V4));
        assert_eq!(Version::negotiate(1, 2), None);
        assert_eq!(Version::negotiate(5, 9), None);
        assert_eq!(Version::negotiate(4, 3), None);
    }
}
