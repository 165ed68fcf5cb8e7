//! Commands of agents that run on a node.
//!
//! Promises: the allowlist of this machine says nothing of another one, so that
//! only the policy or a person lets such a command through; a permit holds once,
//! soon, for this node and for what it said that it would run, and for nothing
//! else. Must not: talk to nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::asking::ApprovalNews;
use super::assess::analysis_of;
use super::authorize::{SHOWN_MAX, words};
use super::denial::Denial;
use super::lineage::Lineage;
use super::node_run::binding_of;
use super::pending::{Decision, Draft, Question, QuestionKind};
use super::policy::Policy;
use super::request::ExecRequest;
use super::service::Approvals;
use super::variables::variables_warning;
use crate::config::ExecSecurity;
use crate::support::json;

/// A permit is redeemed at once by whoever asked for it.
const LIFETIME: Duration = Duration::from_mins(1);

/// A command, the node that is to run it, and what the node makes of it.
#[derive(Debug, Clone, Copy)]
pub struct NodeRun<'a> {
    /// The command.
    pub request: &'a ExecRequest,
    /// Which node.
    pub node_id: &'a str,
    /// What the node says that it will run (`systemRunPlan`).
    pub plan: &'a Value,
    /// The variables that it gets from here.
    pub env: &'a BTreeMap<String, String>,
}

/// The right to have a node run one command once.
#[derive(Debug)]
pub struct NodePermit {
    digest: [u8; 32],
    approval: Option<String>,
    valid_until: Instant,
}

impl NodePermit {
    /// Takes the right; the id of the approval that it comes from, if a person
    /// was asked.
    ///
    /// # Errors
    /// When this is not what was decided on, or too much time has gone by.
    pub fn redeem(self, run: NodeRun<'_>) -> Result<Option<String>, Denial> {
        if Instant::now() >= self.valid_until {
            return Err(Denial::drifted(run.request, "permit-expired"));
        }
        if digest(run) != self.digest {
            return Err(Denial::changed(run.request));
        }
        Ok(self.approval)
    }
}

/// Of all that decides what runs, and where, and for whom.
fn digest(run: NodeRun<'_>) -> [u8; 32] {
    let NodeRun { request, node_id, plan, env } = run;
    let all = json!([
        request.command,
        request.cwd,
        request.agent,
        request.session.as_str(),
        request.host.as_str(),
        request.call_id,
        node_id,
        plan,
        env
    ]);
    Sha256::digest(all.to_string()).into()
}

/// What the rules say of a command for a node, read once: whether the node is asked for its
/// plan and what is decided go by the same.
#[derive(Debug)]
pub struct NodeRules {
    lineage: Lineage,
    policy: Policy,
}

impl NodeRules {
    /// Whether a person is asked.
    pub fn asks(&self) -> bool {
        self.policy.asks(false)
    }
}

impl Approvals {
    /// What the rules say of a command for a node.
    ///
    /// # Errors
    /// With the text for the model when they cannot be read.
    pub async fn rules_on_node(&self, request: &ExecRequest) -> Result<NodeRules, Denial> {
        let lineage = self.lineage(request).await?;
        let policy = self.policy(request, &lineage).await?;
        Ok(NodeRules { lineage, policy })
    }

    /// Decides by `rules` on a command for a node, asking a person if need be. Dropping the
    /// future takes the question back.
    ///
    /// # Errors
    /// With the text for the model when it may not run.
    pub async fn authorize_on_node(
        &self,
        rules: &NodeRules,
        run: NodeRun<'_>,
        news: &dyn ApprovalNews,
    ) -> Result<NodePermit, Denial> {
        let request = run.request;
        let policy = &rules.policy;
        let permit = |approval: Option<String>| NodePermit {
            digest: digest(run),
            approval,
            valid_until: Instant::now() + LIFETIME,
        };
        if policy.security == ExecSecurity::Deny {
            let text = "exec denied: host=node security=deny".into();
            return Err(Denial::by_policy(request, "security=deny", text));
        }
        if !rules.asks() {
            if policy.security == ExecSecurity::Full {
                return Ok(permit(None));
            }
            let text = "exec denied: allowlist miss".into();
            return Err(Denial::by_policy(request, "allowlist-miss", text));
        }
        if !self.has_deciders() {
            let id = self.parts.ids.uuid();
            return Err(Denial::by_question(request, "no-approval-route", &id));
        }
        let question = self.ask_on_node(run, rules)?;
        match self.wait_for(request, &question, news).await {
            None => Err(Denial::by_question(request, "approval-timeout", &question.id)),
            Some(Decision::Deny) => Err(Denial::by_question(request, "user-denied", &question.id)),
            Some(_) => {
                // Much can have been said against it in the meantime.
                let now = self.rules_on_node(request).await?;
                if now.policy.security == ExecSecurity::Deny {
                    return Err(Denial::by_question(request, "security=deny", &question.id));
                }
                // The node may have been asked for it by somebody who was shown the question.
                if !question.redeem() {
                    return Err(Denial::by_question(request, "approval-used", &question.id));
                }
                Ok(permit(Some(question.id.clone())))
            }
        }
    }

    fn ask_on_node(&self, run: NodeRun<'_>, rules: &NodeRules) -> Result<Arc<Question>, Denial> {
        let NodeRun { request, node_id, plan, env } = run;
        let seen = json!([plan["argv"], plan["commandText"], plan["commandPreview"], plan["cwd"]]);
        let set = env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let warning = variables_warning(set);
        let warned = warning.as_ref().map_or(0, String::len);
        if seen.to_string().len() + request.command.len() + warned > SHOWN_MAX {
            let text = format!(
                "Exec denied: the command with its variables is longer than {SHOWN_MAX} bytes, \
                 too long to be shown whole to whoever decides. Write it to a file on the node \
                 and run that."
            );
            return Err(Denial::by_policy(request, "command-too-long", text));
        }
        let variables: Vec<_> =
            env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        // What a yes for ever would be kept in is a file of the node.
        let allowed = vec![Decision::AllowOnce, Decision::Deny];
        let mut shown = json!({
            "command": request.command,
            "systemRunBinding": binding_of(plan, &variables),
            "systemRunPlan": plan,
            "cwd": plan["cwd"],
            "nodeId": node_id,
            "host": request.host.as_str(),
            "security": rules.policy.security.as_str(),
            "ask": rules.policy.ask.as_str(),
            "warningText": warning,
            "commandAnalysis": analysis_of(&request.command),
            "allowedDecisions": words(&allowed),
            "agentId": request.agent,
            "resolvedPath": null,
            "sessionKey": request.session.as_str(),
            "turnSourceChannel": rules.lineage.own().last_channel,
            "turnSourceTo": null,
            "turnSourceAccountId": null,
            "turnSourceThreadId": null,
        });
        if !env.is_empty() {
            shown["envKeys"] = json!(env.keys().collect::<Vec<_>>());
        }
        let (limit, call_id) = (self.patience(request), Some(request.call_id.clone()));
        let draft = Draft { kind: QuestionKind::Exec, request: shown, allowed, limit, call_id };
        self.open(None, draft).map_err(|error| {
            Denial::by_policy(request, "approval-unavailable", format!("Exec denied: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::approvals::ExecHost;
    use crate::sessions::{KeyRules, SessionKey};

    #[test]
    fn a_permit_holds_for_the_very_node_plan_variables_and_session_that_were_decided_on() {
        let request = ExecRequest::example(ExecHost::Node);
        let (plan, env) = (json!({"argv": ["uname"], "cwd": null}), BTreeMap::new());
        let run = NodeRun { request: &request, node_id: "n", plan: &plan, env: &env };
        let permit = || NodePermit {
            digest: digest(run),
            approval: Some("a".into()),
            valid_until: Instant::now() + LIFETIME,
        };
        assert_eq!(permit().redeem(run).unwrap().as_deref(), Some("a"));
        let other_plan = json!({"argv": ["rm"], "cwd": null});
        let other_env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let other_agent = ExecRequest { agent: "ops".into(), ..request.clone() };
        let other_session = SessionKey::parse("other", &KeyRules::default());
        let other_session = ExecRequest { session: other_session, ..request.clone() };
        for other in [
            NodeRun { node_id: "m", ..run },
            NodeRun { plan: &other_plan, ..run },
            NodeRun { env: &other_env, ..run },
            NodeRun { request: &other_agent, ..run },
            NodeRun { request: &other_session, ..run },
        ] {
            assert!(permit().redeem(other).is_err());
        }
        let late = NodePermit { valid_until: Instant::now(), ..permit() };
        assert!(late.redeem(run).is_err());
    }
}
