//! The rows of `commands.list`.

use serde_json::Value;

use super::skill;
use super::table::{Arg, Category, Spec, offered};
use crate::agent::skills::SkillCommand;
use crate::config::AgentSettings;
use crate::registry::Ctx;
use crate::support::json;

/// The commands there are, as the original lists them. All of them are for
/// texts and for menus of clients alike.
pub async fn rows(cx: &Ctx, agent: AgentSettings, with_args: bool) -> Vec<Value> {
    let skills = skill::commands(cx, agent).await;
    let own = offered(cx.services.settings.now().commands.config).map(|spec| row(spec, with_args));
    own.chain(skills.iter().map(skill_row)).collect()
}

fn skill_row(command: &SkillCommand) -> Value {
    json!({
        "name": command.name,
        "nativeName": command.name,
        "textAliases": [format!("/{}", command.name)],
        "description": command.description,
        "category": Category::Tools,
        "source": "skill",
        "scope": "both",
        "acceptsArgs": true,
    })
}

fn row(spec: &Spec, with_args: bool) -> Value {
    let mut row = json!({
        "name": spec.name,
        "nativeName": spec.name,
        "textAliases": spec.aliases,
        "description": spec.description,
        "category": spec.category,
        "source": "native",
        "scope": "both",
        "acceptsArgs": spec.takes_args,
    });
    if with_args && !spec.args.is_empty() {
        row["args"] = spec.args.iter().map(arg).collect();
    }
    row
}

fn arg(arg: &Arg) -> Value {
    let mut row = json!({"name": arg.name, "description": arg.description, "type": "string"});
    if arg.is_required {
        row["required"] = json!(true);
    }
    if !arg.choices.is_empty() {
        let choices = arg.choices.iter().map(|value| json!({"value": value, "label": value}));
        row["choices"] = choices.collect();
    }
    row
}
