//! `nodes`: the machines that are connected, and what they can be asked.
//!
//! Promises: programs of a node are only run by `exec`, which asks whoever has to
//! be asked; nothing here approves a node or changes what one may do; what a node
//! says is bounded and marked as coming from outside; only the owner of the gateway
//! gets at them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::files::picture;
use super::{Tool, ToolContext, ToolOutput};
use crate::agent::web::wrap;
use crate::nodes::{NodeCall, NodeRow, policy};
use crate::protocol::message::ContentBlock;
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, json, without_nulls};

/// Most characters of an answer that the model gets to see.
const MAX_SHOWN: usize = 50_000;
/// How long a node may take when the call does not say, as in the original.
const DEFAULT_TIMEOUT_MS: u64 = 30_000;
/// The longest that a call may give it.
const MAX_TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// Actions that are one command of a node.
const COMMANDS: [(&str, &str); 10] = [
    ("notify", "system.notify"),
    ("camera_list", "camera.list"),
    ("camera_snap", "camera.snap"),
    ("canvas_snapshot", "canvas.snapshot"),
    ("location_get", "location.get"),
    ("notifications_list", "notifications.list"),
    ("photos_latest", "photos.latest"),
    ("device_info", "device.info"),
    ("device_status", "device.status"),
    ("device_health", "device.health"),
];

/// The tool.
pub struct Nodes;

impl Tool for Nodes {
    fn name(&self) -> &'static str {
        "nodes"
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "See and use connected nodes (phones, other machines): status lists \
                them, describe shows one, notify shows a message on it, the others ask it for \
                something, invoke asks for any other command that it declares. To run programs \
                on a node use exec with host=node."
                .into(),
            parameters: parameters(),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let action = arguments["action"].as_str()?;
        let what = match action {
            "invoke" => arguments["invokeCommand"].as_str().unwrap_or(action),
            action => action,
        };
        Some(match arguments["node"].as_str() {
            Some(node) => format!("{what} ({node})"),
            None => what.to_owned(),
        })
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            if !cx.is_owner() {
                return ToolOutput::error("nodes is only for the owner of the gateway");
            }
            run(cx, arguments).await.unwrap_or_else(|error| ToolOutput::failed("nodes", error))
        })
    }
}

async fn run(cx: &ToolContext, arguments: &Value) -> Result<ToolOutput, String> {
    let parts = cx.parts();
    let devices = parts.node_devices().await.map_err(|error| error.to_string())?;
    let action = arguments["action"].as_str().unwrap_or_default();
    if action == "status" {
        let rows = parts.nodes.list(&devices).await.map_err(|error| error.to_string())?;
        let rows: Vec<_> = rows.iter().map(NodeRow::to_wire).collect();
        return Ok(ToolOutput::json(json!({"ts": parts.clock.now_ms(), "nodes": rows})));
    }
    let named = arguments["node"].as_str().map(str::trim).filter(|name| !name.is_empty());
    let row = if let Some(name) = named {
        parts.nodes.find(&devices, name).await.map_err(|error| error.to_string())?
    } else {
        let mut there = parts.nodes.list(&devices).await.map_err(|error| error.to_string())?;
        there.retain(NodeRow::is_connected);
        match there.as_slice() {
            [one] => one.clone(),
            [] => return Err("no node is connected".into()),
            _ => return Err("more than one node is connected: say which (node)".into()),
        }
    };
    if action == "describe" {
        return Ok(ToolOutput::json(row.to_wire()));
    }
    let (command, params) = asked(action, arguments)?;
    let timeout = arguments["invokeTimeoutMs"].as_u64().unwrap_or(DEFAULT_TIMEOUT_MS);
    let call = NodeCall {
        command: command.clone(),
        params: Some(params),
        timeout_ms: Some(timeout.clamp(1, MAX_TIMEOUT_MS)),
        idempotency_key: Some(parts.ids.uuid()),
        session: None,
    };
    let answer = parts.nodes.invoke(&row.node_id, call).await.map_err(|error| error.to_string())?;
    let mut output = told(cx, &row, &command, answer.payload);
    keep_picture(cx, &mut output).await;
    Ok(output)
}

/// Keeps a picture for the chat that the run answers, if there may be one.
async fn keep_picture(cx: &ToolContext, output: &mut ToolOutput) {
    let channels = &cx.parts().channels;
    let picture = output.content.iter().find_map(|block| match block {
        ContentBlock::Image(image) => Some(&image.data),
        _ => None,
    });
    let bytes = picture.and_then(|data| STANDARD.decode(data).ok());
    let Some(bytes) = bytes.filter(|_| cx.run.is_some() && !channels.is_empty()) else { return };
    match channels.keep_file(&cx.parts().ids.uuid(), "picture", bytes).await {
        Ok(item) => {
            if let (Some(details), Some(path)) = (&mut output.details, channels.path_of(&item)) {
                details["media"] = json!({"mediaUrl": path});
            }
        }
        Err(error) => tracing::warn!(%error, "picture of a node not kept"),
    }
}

/// The command that an action stands for, and its params.
fn asked(action: &str, arguments: &Value) -> Result<(String, Value), String> {
    if let Some((_, command)) = COMMANDS.iter().find(|(name, _)| *name == action) {
        let params = match action {
            "notify" => {
                let said = |name: &str| arguments[name].as_str().map(str::trim);
                if [said("title"), said("body")].iter().flatten().all(|text| text.is_empty()) {
                    return Err("title or body required".into());
                }
                without_nulls(json!({"title": said("title"), "body": said("body"),
                    "priority": arguments["priority"]}))
            }
            _ => json!({}),
        };
        return Ok(((*command).to_owned(), params));
    }
    let command = arguments["invokeCommand"].as_str().map(str::trim).unwrap_or_default();
    if command.is_empty() {
        return Err("invokeCommand required".into());
    }
    if policy::runs_programs(command) {
        return Err(format!("{command} is not for this tool; use exec with host=node"));
    }
    let params = match arguments["invokeParamsJson"].as_str().map(str::trim) {
        None | Some("") => json!({}),
        Some(text) => serde_json::from_str(text)
            .map_err(|error| format!("invokeParamsJson must be JSON: {error}"))?,
    };
    Ok((command.to_owned(), params))
}

/// What a node has answered: a picture as a picture, the rest as JSON.
fn told(cx: &ToolContext, row: &NodeRow, command: &str, mut payload: Value) -> ToolOutput {
    let format = payload["format"].as_str().unwrap_or_default().to_ascii_lowercase();
    let is_picture = matches!(format.as_str(), "png" | "jpg" | "jpeg");
    let mut shown_picture = None;
    if let Some(data) = payload["base64"].as_str().filter(|_| is_picture) {
        shown_picture = picture(data);
        let left_out = if shown_picture.is_some() { "" } else { ", left out" };
        payload["base64"] = json!(format!("<{} characters{left_out}>", data.len()));
    }
    let (id, source) = (cx.parts().ids.uuid(), format!("node {} {command}", row.node_id));
    let shown = wrap(&format!("{payload:#}"), &source, &id, MAX_SHOWN);
    let mut output = ToolOutput::text(shown.text);
    output.content.extend(shown_picture);
    let details = json!({"nodeId": row.node_id, "command": command, "truncated": shown.is_cut});
    ToolOutput { details: Some(details), ..output }
}

fn parameters() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let actions: Vec<_> = ["status", "describe"]
        .into_iter()
        .chain(COMMANDS.iter().map(|(action, _)| *action))
        .chain(["invoke"])
        .collect();
    json!({
        "type": "object",
        "required": ["action"],
        "properties": {
            "action": {"type": "string", "enum": actions},
            "node": text("Id or name of the node; needed when more than one is connected"),
            "title": text("Title for notify"),
            "body": text("Text for notify"),
            "priority": {"type": "string", "enum": ["passive", "active", "timeSensitive"]},
            "invokeCommand": text("Command for invoke, such as canvas.navigate"),
            "invokeParamsJson": text("Its params, as JSON"),
            "invokeTimeoutMs": {"type": "integer",
                "description": "Milliseconds that the node has (default 30000)"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tools::files::PICTURE_MAX;
    use crate::providers::testing::png;

    #[test]
    fn a_picture_of_a_node_is_what_its_bytes_say_and_one_that_no_model_takes_is_left_out() {
        let data = STANDARD.encode(png(8000, 1));
        assert_eq!(picture(&data), Some(ContentBlock::image(data.clone(), "image/png")));
        let jpeg = STANDARD.encode(b"\xff\xd8\xff\xe0");
        assert_eq!(picture(&jpeg), Some(ContentBlock::image(jpeg.clone(), "image/jpeg")));
        let wide = STANDARD.encode(png(8001, 1));
        let mut heavy = png(1, 1);
        heavy.resize(PICTURE_MAX, 0);
        for data in ["", "no base64!", "aGVsbG8=", &wide, &STANDARD.encode(heavy)] {
            assert_eq!(picture(data), None);
        }
    }

    #[test]
    fn programs_of_a_node_are_not_for_this_tool() {
        for command in ["system.run", " system.run.prepare ", "system.which"] {
            let arguments = json!({"action": "invoke", "invokeCommand": command});
            assert!(asked("invoke", &arguments).unwrap_err().contains("use exec"), "{command}");
        }
        let arguments = json!({"action": "invoke", "invokeCommand": "canvas.eval",
            "invokeParamsJson": "{\"js\":\"1\"}"});
        let expected = ("canvas.eval".to_owned(), json!({"js": "1"}));
        assert_eq!(asked("invoke", &arguments), Ok(expected));
        assert!(asked("invoke", &json!({})).is_err());
        assert!(asked("notify", &json!({"title": " "})).is_err());
        assert_eq!(
            asked("notify", &json!({"body": "hi"})),
            Ok(("system.notify".to_owned(), json!({"body": "hi"})))
        );
    }
}
