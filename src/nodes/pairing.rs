//! Approving nodes: the store that hands out a token of its own, which is also
//! where the commands of nodes that connect are approved.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::{Nodes, policy};
use crate::auth::Principal;
use crate::auth::pairing::hash;
use crate::bus::{Audience, EventKind};
use crate::protocol::{Scope, missing_scope};
use crate::store::{NodeApproval, NodeFacts, NodePairRequest, NodePairings, StoreError};
use crate::support::{Secret, json};

/// 256 bits: beyond guessing.
const TOKEN_BYTES: usize = 32;

/// Why a node is not approved.
#[derive(Debug, thiserror::Error)]
pub enum ApproveError {
    /// Nobody waits under this id.
    #[error("unknown requestId")]
    Unknown,
    /// Who approves may not approve such commands.
    #[error("{0}")]
    Refused(String),
    /// The system has no randomness for its token.
    #[error("Error: no token could be made: {0}")]
    NoToken(getrandom::Error),
    /// It could not be recorded.
    #[error("Error: {0}")]
    Store(#[from] StoreError),
}

/// The scopes that approving these commands needs.
pub fn required_scopes(commands: &[String]) -> Vec<Scope> {
    let mut scopes = vec![Scope::Pairing];
    if commands.iter().any(|command| policy::runs_programs(command)) {
        scopes.push(Scope::Admin);
    } else if !commands.is_empty() {
        scopes.push(Scope::Write);
    }
    scopes
}

impl Nodes {
    /// Files a request for a node, or renews the one that it has; answers it and
    /// whether it is new. `None` when too many wait.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn request_pairing(
        &self,
        node_id: String,
        facts: NodeFacts,
        silent: bool,
    ) -> Result<Option<(NodePairRequest, bool)>, StoreError> {
        self.sought().await;
        let (request_id, ts) = (self.parts.ids.uuid(), self.parts.clock.now_ms());
        let request = NodePairRequest { request_id, node_id, facts, silent, ts };
        let filed = self.parts.store.request_node_pairing(request, self.live_ids()).await?;
        if let Some((request, true)) = &filed {
            self.tell_requested(request);
        }
        Ok(filed)
    }

    /// Those who wait and those who were approved.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn pairings(&self) -> Result<NodePairings, StoreError> {
        self.sought().await;
        // Boxed: it has seldom anything to do, and is large.
        Box::pin(self.follow_settings()).await;
        self.parts.store.node_pairings(self.live_ids(), self.parts.clock.now_ms()).await
    }

    /// Approves a request with the rights of `principal`; answers the node, with
    /// the token that is shown this once.
    ///
    /// # Errors
    /// When there is no such request, or those rights are not enough for it.
    pub async fn approve(
        &self,
        principal: &Principal,
        request_id: &str,
    ) -> Result<Value, ApproveError> {
        let token = token().map_err(ApproveError::NoToken)?;
        let principal = principal.clone();
        let check = Box::new(move |request: &NodePairRequest| {
            let needed = required_scopes(request.facts.commands());
            match needed.into_iter().find(|scope| !principal.allows(*scope)) {
                Some(scope) => Err(missing_scope(scope.as_str())),
                None => Ok(()),
            }
        });
        let (now_ms, live) = (self.parts.clock.now_ms(), self.live_ids());
        let store = &self.parts.store;
        let _turn = self.deciding.lock().await;
        match store.approve_node(request_id, hash(&token), check, live, now_ms).await? {
            NodeApproval::Unknown => Err(ApproveError::Unknown),
            NodeApproval::Refused(text) => Err(ApproveError::Refused(text)),
            NodeApproval::Approved(pair) => {
                self.grant(&pair.node_id, pair.facts.commands());
                self.tell_resolved(request_id, &pair.node_id, "approved");
                let mut node = json!(pair);
                node["token"] = json!(token);
                Ok(json!({"requestId": request_id, "node": node}))
            }
        }
    }

    /// Rejects a request; answers whose it was. What nobody ever approved the
    /// node may not be asked for from then on.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn reject(&self, request_id: &str) -> Result<Option<String>, StoreError> {
        let (live, now_ms) = (self.live_ids(), self.parts.clock.now_ms());
        let _turn = self.deciding.lock().await;
        let rejected = self.parts.store.reject_node(request_id, live, now_ms).await?;
        let Some((node_id, is_paired)) = rejected else { return Ok(None) };
        if !is_paired {
            self.grant(&node_id, &[]);
        }
        self.tell_resolved(request_id, &node_id, "rejected");
        Ok(Some(node_id))
    }

    /// Takes from a node what it was granted, approved or not, with its request; answers
    /// whether it is known.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn remove(&self, node_id: &str) -> Result<bool, StoreError> {
        self.imported().await;
        let _turn = self.deciding.lock().await;
        let removed = self.parts.store.remove_node(node_id).await?;
        let Some(dropped) = removed else { return Ok(false) };
        self.grant(node_id, &[]);
        self.tell_resolved("", node_id, "removed");
        for request_id in dropped {
            self.tell_resolved(&request_id, node_id, "rejected");
        }
        Ok(true)
    }

    /// Names a node that was approved; answers whether there is one.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn rename(&self, node_id: &str, name: &str) -> Result<bool, StoreError> {
        self.imported().await;
        let is_known = self.parts.store.rename_node(node_id, name).await?;
        self.renamed(node_id);
        Ok(is_known)
    }

    /// The node that this token was given to.
    ///
    /// # Errors
    /// When it cannot be looked up.
    pub async fn verify(&self, node_id: &str, token: &str) -> Result<Option<Value>, StoreError> {
        self.imported().await;
        let Some((pair, expected)) = self.parts.store.node_pair(node_id).await? else {
            return Ok(None);
        };
        let token = token.trim();
        if !Secret::new(expected).matches(&hash(token)) {
            return Ok(None);
        }
        let mut node = json!(pair);
        node["token"] = json!(token);
        Ok(Some(node))
    }

    fn tell_resolved(&self, request_id: &str, node_id: &str, decision: &str) {
        let payload = json!({"requestId": request_id, "nodeId": node_id, "decision": decision,
            "ts": self.parts.clock.now_ms()});
        self.parts.bus.publish(EventKind::NodePairResolved, &Audience::Everyone, &payload);
    }
}

/// 43 characters, as in the original.
fn token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
