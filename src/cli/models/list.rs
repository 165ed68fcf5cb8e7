//! `clawgate models list`.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::super::args::JsonArgs;
use super::super::block_on;
use super::super::format::table;
use super::super::output::say;
use super::Facts;
use crate::config::Env;
use crate::providers::credentials::ProfileState;
use crate::providers::{InputKind, ModelInfo, View};
use crate::support::json;

/// Arguments of `clawgate models list`.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools)] // each is one flag
pub struct ListArgs {
    /// Also show models that lack a credential
    #[arg(long)]
    all: bool,
    /// Only models of this machine
    #[arg(long)]
    local: bool,
    /// Only models of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Print names only, one per line
    #[arg(long, conflicts_with = "json")]
    plain: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Shows the models.
pub fn run(args: &ListArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let facts = Facts::find(env)?;
    let failover = &facts.failover;
    let agent = &facts.settings.agents.default_id;
    let stored = block_on(&facts.runtime, failover.credentials().profiles(agent));
    let catalog = failover.catalog();
    let view = if args.all { View::All } else { View::Default };
    let is_wanted = |model: &&&std::sync::Arc<ModelInfo>| {
        args.provider.as_ref().is_none_or(|name| model.is_of(name))
            && (!args.local || model.is_local())
    };
    let models = catalog.view(view, &|provider| has_profile(&stored, provider));
    let rows: Vec<Row> = models
        .iter()
        .filter(is_wanted)
        .map(|model| Row {
            model,
            alias: catalog.alias(model).map(str::to_owned),
            is_default: catalog.default_choice().model.is(&model.reference()),
            is_usable: model.has_credential() || has_profile(&stored, &model.provider),
        })
        .collect();
    let text = if args.json.json {
        let rows: Vec<_> = rows.iter().map(Row::to_json).collect();
        format!("{:#}\n", json!({"count": rows.len(), "models": rows}))
    } else if args.plain {
        table(&rows.iter().map(|row| [row.model.reference().to_string()]).collect::<Vec<_>>())
    } else if rows.is_empty() && args.all {
        "No models.\n".into()
    } else if rows.is_empty() {
        "No models; `clawgate models list --all` shows those that lack a credential, too.\n".into()
    } else {
        let head = ["Model", "Input", "Context", "Usable", "Notes"].map(str::to_owned);
        let lines = std::iter::once(head).chain(rows.iter().map(Row::to_line));
        table(&lines.collect::<Vec<_>>())
    };
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub fn has_profile(stored: &[ProfileState], provider: &str) -> bool {
    stored.iter().any(|state| state.opens(provider))
}

struct Row<'a> {
    model: &'a ModelInfo,
    alias: Option<String>,
    is_default: bool,
    is_usable: bool,
}

impl Row<'_> {
    fn input(&self) -> String {
        self.model.input.iter().map(|kind| InputKind::as_str(*kind)).collect::<Vec<_>>().join("+")
    }

    fn tags(&self) -> Vec<String> {
        let default = self.is_default.then(|| "default".to_owned());
        let alias = self.alias.as_ref().map(|alias| format!("alias:{alias}"));
        default.into_iter().chain(alias).collect()
    }

    fn to_json(&self) -> Value {
        json!({
            "key": self.model.reference().to_string(),
            "name": self.model.name,
            "input": self.input(),
            "contextWindow": self.model.context_window,
            "maxTokens": self.model.max_tokens,
            "reasoning": self.model.reasoning,
            "local": self.model.is_local(),
            "available": self.is_usable,
            "tags": self.tags(),
        })
    }

    fn to_line(&self) -> [String; 5] {
        [
            self.model.reference().to_string(),
            self.input(),
            format!("{}k", self.model.context_window / 1000),
            if self.is_usable { "yes" } else { "no" }.into(),
            self.tags().join(", "),
        ]
    }
}
