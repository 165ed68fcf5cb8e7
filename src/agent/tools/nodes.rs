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
use crate::nodes::{IN_BACKGROUND, InvokeError, NodeCall, NodeRow, policy};
use crate::protocol::message::ContentBlock;
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, json, without_nulls};

/// Most characters of an answer that the model gets to see.
const MAX_SHOWN: usize = 50_000;
/// Most pictures of an answer that the model gets to see, as with the tools of servers.
const MAX_PICTURES: usize = 8;
/// Longest base64 of what is no picture that stays in an answer: a model reads none.
const MAX_BASE64: usize = 1_000;
/// The size and the quality of photos when the call does not say, as in the original.
const PHOTO_WIDTH: u64 = 1_600;
const SNAP_QUALITY: f64 = 0.95;
const PHOTO_QUALITY: f64 = 0.85;
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
    let answer = match parts.nodes.invoke(&row.node_id, call.clone()).await {
        Ok(answer) => answer,
        Err(InvokeError::Refused { code, .. })
            if code == IN_BACKGROUND && row.may_keep(&command) =>
        {
            return Err(keep_command(cx, &row, &call).await);
        }
        Err(error) => return Err(error.to_string()),
    };
    let mut output = told(cx, &row, &command, answer.payload);
    keep_pictures(cx, &mut output).await;
    Ok(output)
}

/// Keeps a command until its app is in the foreground, as `node.invoke` does; answers what
/// the model is told of that.
async fn keep_command(cx: &ToolContext, row: &NodeRow, call: &NodeCall) -> String {
    let key = call.idempotency_key.as_deref().unwrap_or_default();
    let (nodes, params) = (&cx.parts().nodes, call.params.as_ref());
    match nodes.keep_for_later(&row.node_id, &call.command, params, key).await {
        Ok(Some(_)) => "node command queued until iOS returns to foreground; it is done if that \
                        is within ten minutes, and its answer is not told: do not ask again"
            .into(),
        Ok(None) => {
            "too many commands wait until this node returns to the foreground; this one does not"
                .into()
        }
        Err(error) => error.to_string(),
    }
}

/// Keeps pictures for the chat that the run answers, if there may be one.
async fn keep_pictures(cx: &ToolContext, output: &mut ToolOutput) {
    let channels = &cx.parts().channels;
    if cx.run.is_none() || channels.is_empty() {
        return;
    }
    let mut paths = Vec::new();
    for block in &output.content {
        let ContentBlock::Image(image) = block else { continue };
        let Ok(bytes) = STANDARD.decode(&image.data) else { continue };
        match channels.keep_file(&cx.parts().ids.uuid(), "picture", bytes).await {
            Ok(item) => paths.extend(channels.path_of(&item)),
            Err(error) => tracing::warn!(%error, "picture of a node not kept"),
        }
    }
    if let Some(details) = output.details.as_mut().filter(|_| !paths.is_empty()) {
        details["media"] = json!({"mediaUrls": paths});
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
            "camera_snap" => given(
                arguments,
                json!({"facing": "front", "maxWidth": PHOTO_WIDTH, "quality": SNAP_QUALITY,
                    "format": "jpg"}),
            ),
            "photos_latest" => given(
                arguments,
                json!({"limit": 1, "maxWidth": PHOTO_WIDTH, "quality": PHOTO_QUALITY}),
            ),
            "canvas_snapshot" => given(arguments, json!({"maxWidth": null, "quality": null})),
            "location_get" => given(arguments, json!({"desiredAccuracy": null})),
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

/// These params, as far as the call says nothing else.
fn given(arguments: &Value, mut params: Value) -> Value {
    for (name, value) in params.as_object_mut().into_iter().flatten() {
        if let Some(said) = arguments.get(name.as_str()).filter(|said| !said.is_null()) {
            value.clone_from(said);
        }
    }
    without_nulls(params)
}

/// What a node has answered: a picture as a picture, the rest as JSON.
fn told(cx: &ToolContext, row: &NodeRow, command: &str, mut payload: Value) -> ToolOutput {
    let mut pictures = Vec::new();
    take_files(&mut payload, &mut pictures);
    let (id, source) = (cx.parts().ids.uuid(), format!("node {} {command}", row.node_id));
    let shown = wrap(&format!("{payload:#}"), &source, &id, MAX_SHOWN);
    let mut output = ToolOutput::text(shown.text);
    output.content.extend(pictures);
    let details = json!({"nodeId": row.node_id, "command": command, "truncated": shown.is_cut});
    ToolOutput { details: Some(details), ..output }
}

/// Takes files out of an answer: those that are pictures are shown.
fn take_files(value: &mut Value, pictures: &mut Vec<ContentBlock>) {
    let members = match value {
        Value::Object(members) => members,
        Value::Array(items) => {
            for item in items {
                take_files(item, pictures);
            }
            return;
        }
        _ => return,
    };
    let format = members.get("format").and_then(Value::as_str).unwrap_or_default();
    let is_picture = ["png", "jpg", "jpeg"].iter().any(|it| it.eq_ignore_ascii_case(format));
    for (name, member) in members {
        let data = member.as_str().filter(|_| name == "base64");
        let Some(data) = data.filter(|data| is_picture || data.len() > MAX_BASE64) else {
            take_files(member, pictures);
            continue;
        };
        let has_room = is_picture && pictures.len() < MAX_PICTURES;
        let shown = has_room.then(|| picture(data)).flatten();
        let end = match &shown {
            Some(_) => "",
            None if has_room => ", left out; ask again with a smaller maxWidth",
            None => ", left out",
        };
        let note = format!("<{} characters{end}>", data.len());
        *member = json!(note);
        pictures.extend(shown);
    }
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
        "additionalProperties": false,
        "properties": {
            "action": {"type": "string", "enum": actions},
            "node": text("Id or name of the node; needed when more than one is connected"),
            "title": text("Title for notify"),
            "body": text("Text for notify"),
            "priority": {"type": "string", "enum": ["passive", "active", "timeSensitive"]},
            "facing": {"type": "string", "enum": ["front", "back"],
                "description": "Camera for camera_snap (default front)"},
            "maxWidth": {"type": "integer", "minimum": 1,
                "description": "Most pixels of a picture's width (default of photos 1600)"},
            "quality": {"type": "number", "minimum": 0, "maximum": 1,
                "description": "Quality of a picture"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PICTURES,
                "description": "How many photos photos_latest is to give (default 1)"},
            "desiredAccuracy": {"type": "string", "enum": ["coarse", "balanced", "precise"],
                "description": "For location_get"},
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
    fn pictures_of_an_answer_are_shown_and_other_files_are_left_out() {
        let small = STANDARD.encode(png(1, 1));
        let photo = |data: &str| json!({"format": "jpeg", "base64": data, "width": 1});
        let mut answer = json!({"photos": [photo(&small), photo("x")],
            "clip": {"format": "mp4", "base64": "A".repeat(MAX_BASE64 + 1)},
            "key": {"base64": "aGVsbG8="}});
        let mut pictures = Vec::new();
        take_files(&mut answer, &mut pictures);
        assert_eq!(pictures, [ContentBlock::image(small.clone(), "image/png")]);
        let shown = photo(&format!("<{} characters>", small.len()));
        let wide = photo("<1 characters, left out; ask again with a smaller maxWidth>");
        let expected = json!({"photos": [shown, wide],
            "clip": {"format": "mp4", "base64": "<1001 characters, left out>"},
            "key": {"base64": "aGVsbG8="}});
        assert_eq!(answer, expected);

        let many: Vec<_> = (0..=MAX_PICTURES).map(|_| photo(&small)).collect();
        let (mut answer, mut pictures) = (json!(many), Vec::new());
        take_files(&mut answer, &mut pictures);
        assert_eq!(pictures.len(), MAX_PICTURES);
        assert!(answer[MAX_PICTURES]["base64"].as_str().unwrap().ends_with(", left out>"));
    }

    #[test]
    fn what_a_call_says_of_a_picture_or_a_place_goes_to_the_node() {
        let params =
            |arguments: Value| asked(arguments["action"].as_str().unwrap(), &arguments).unwrap().1;
        assert_eq!(
            params(json!({"action": "camera_snap", "facing": "back", "maxWidth": 800})),
            json!({"facing": "back", "maxWidth": 800, "quality": 0.95, "format": "jpg"})
        );
        assert_eq!(
            params(json!({"action": "photos_latest", "limit": 3, "quality": 0.5})),
            json!({"limit": 3, "maxWidth": 1600, "quality": 0.5})
        );
        assert_eq!(params(json!({"action": "canvas_snapshot", "node": "x"})), json!({}));
        assert_eq!(
            params(json!({"action": "location_get", "desiredAccuracy": "precise"})),
            json!({"desiredAccuracy": "precise"})
        );
        assert_eq!(parameters()["additionalProperties"], false);
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
