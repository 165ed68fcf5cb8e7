//! The rows of `commands.list`.

use serde_json::{Value, json};

use super::table::{Arg, Spec, offered};
use crate::registry::Ctx;

/// The commands there are, as the original lists them. All of them are for
/// texts and for menus of clients alike.
pub fn rows(cx: &Ctx, with_args: bool) -> Vec<Value> {
    offered(cx.services.settings.commands.config).map(|spec| row(spec, with_args)).collect()
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
    if !arg.choices.is_empty() {
        let choices = arg.choices.iter().map(|value| json!({"value": value, "label": value}));
        row["choices"] = choices.collect();
    }
    row
}
