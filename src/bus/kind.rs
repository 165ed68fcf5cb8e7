//! The one list of events: name and the right that seeing it needs.

use crate::auth::Principal;
use crate::protocol::{Role, Scope};

/// What a connection needs to get an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Nothing.
    Open,
    /// An operator with this scope.
    Scope(Scope),
    /// A node.
    Node,
    /// A node, or an operator with this scope.
    NodeOr(Scope),
}

impl Gate {
    /// Whether `principal` passes.
    pub fn admits(self, principal: &Principal) -> bool {
        match self {
            Self::Open => true,
            Self::Scope(scope) => principal.allows(scope),
            Self::Node => principal.role() == Role::Node,
            Self::NodeOr(scope) => principal.role() == Role::Node || principal.allows(scope),
        }
    }
}

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $gate:expr;)*) => {
        /// An event that this gateway sends. What is not in this list cannot
        /// be sent at all.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum EventKind {
            $($(#[$doc])* $variant,)*
        }

        impl EventKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// What seeing it needs.
            pub const fn gate(self) -> Gate {
                match self { $(Self::$variant => $gate),* }
            }
        }
    };
}

events! {
    /// The nonce, right after the upgrade.
    ConnectChallenge = "connect.challenge", Gate::Open;
    /// What happens inside a run.
    Agent = "agent", Gate::Scope(Scope::Read);
    /// The text of a run.
    Chat = "chat", Gate::Scope(Scope::Read);
    /// The answer to a side question.
    ChatSideResult = "chat.side_result", Gate::Scope(Scope::Read);
    /// A message was added to a transcript.
    SessionMessage = "session.message", Gate::Scope(Scope::Read);
    /// A tool call of a session, for those who watch all sessions.
    SessionTool = "session.tool", Gate::Scope(Scope::Read);
    /// A session's row changed.
    SessionsChanged = "sessions.changed", Gate::Scope(Scope::Read);
    /// A command waits for a person.
    ExecApprovalRequested = "exec.approval.requested", Gate::Scope(Scope::Approvals);
    /// A person decided on a command.
    ExecApprovalResolved = "exec.approval.resolved", Gate::Scope(Scope::Approvals);
    /// Something that a plugin wants to do waits for a person.
    PluginApprovalRequested = "plugin.approval.requested", Gate::Scope(Scope::Approvals);
    /// A person decided on that.
    PluginApprovalResolved = "plugin.approval.resolved", Gate::Scope(Scope::Approvals);
    /// A device asks to be paired.
    DevicePairRequested = "device.pair.requested", Gate::Scope(Scope::Pairing);
    /// Somebody decided on that, or it needed nobody.
    DevicePairResolved = "device.pair.resolved", Gate::Scope(Scope::Pairing);
    /// A node waits for its approval.
    NodePairRequested = "node.pair.requested", Gate::Scope(Scope::Pairing);
    /// A node was approved, rejected or removed.
    NodePairResolved = "node.pair.resolved", Gate::Scope(Scope::Pairing);
    /// A node is asked to do something.
    NodeInvokeRequest = "node.invoke.request", Gate::Node;
    /// The wake words changed, or a node is told of them.
    VoicewakeChanged = "voicewake.changed", Gate::NodeOr(Scope::Read);
    /// Whom they wake changed, or a node is told of it.
    VoicewakeRoutingChanged = "voicewake.routing.changed", Gate::NodeOr(Scope::Read);
    /// Somebody began or stopped talking with an agent.
    TalkMode = "talk.mode", Gate::Scope(Scope::Write);
    /// Something happened to a job of the scheduler.
    Cron = "cron", Gate::Scope(Scope::Read);
    /// What came of a heartbeat.
    Heartbeat = "heartbeat", Gate::Open;
    /// The list of those present changed.
    Presence = "presence", Gate::Open;
    /// The gateway is alive.
    Tick = "tick", Gate::Open;
    /// The gateway is about to stop.
    Shutdown = "shutdown", Gate::Open;
    /// A new health snapshot.
    Health = "health", Gate::Open;
}

impl EventKind {
    /// Names of the events that `principal` may get.
    pub fn names_for(principal: &Principal) -> Vec<&'static str> {
        Self::ALL
            .iter()
            .filter(|kind| kind.gate().admits(principal))
            .map(|kind| kind.name())
            .collect()
    }
}
