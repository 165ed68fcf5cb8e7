//! What the Control UI asks for when it begins.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};

use crate::agent::workspace::{Avatar, Face, FileIdentity};
use crate::config::{AgentSettings, Settings};
use crate::gateway::Gateway;
use crate::handlers::SERVER_VERSION;
use crate::support::json;

use super::super::caller::reader;
use super::super::json_answer;
use super::{ASK_AGAIN, Asked, avatar, files, headers, media};

pub(in crate::http) async fn answer(asked: Asked<'_>) -> Response {
    let Asked { gateway, wire, peer, parts, .. } = asked;
    let answer = match reader(gateway, wire, peer, &parts.headers).await {
        Ok(_) => told(gateway).await,
        Err(refusal) => refusal,
    };
    headers::of_ui(answer)
}

async fn told(gateway: &Gateway) -> Response {
    let settings = gateway.services.settings.now();
    let ui = &settings.gateway.ui;
    let agent = &settings.agents.default_id;
    let face = face(gateway, settings.agents.agent(agent)).await;
    let meta = avatar::Meta::of(&face, &ui.base_path, agent);
    // A picture in a file is at an address of its own: this is asked for often.
    let shown = match (&face.picture, &meta.url) {
        (Some(Avatar::Local(_)), Some(url)) => url.clone(),
        _ => face.shown(),
    };
    let roots: Vec<_> =
        media_roots(&settings).iter().map(|root| root.display().to_string()).collect();
    let mut body = json!({
        "basePath": ui.base_path,
        "assistantName": face.name,
        "assistantAvatar": shown,
        "assistantAvatarSource": meta.source,
        "assistantAvatarStatus": meta.status,
        "assistantAvatarReason": meta.reason,
        "assistantAgentId": agent,
        "serverVersion": SERVER_VERSION,
        "localMediaPreviewRoots": roots,
        "embedSandbox": ui.embed_sandbox.as_str(),
        "allowExternalEmbedUrls": ui.allow_external_embed_urls,
    });
    if let Some(width) = &ui.chat_message_max_width {
        body["chatMessageMaxWidth"] = json!(width);
    }
    ([(CACHE_CONTROL, ASK_AGAIN)], json_answer(StatusCode::OK, &body)).into_response()
}

/// How an agent is shown.
pub(super) async fn face(gateway: &Gateway, known: Option<&AgentSettings>) -> Face {
    // Only of an agent that is configured it is known where its files are.
    let Some(agent) = known.cloned() else { return Face::of(None, FileIdentity::default()) };
    let workspaces = Arc::clone(&gateway.services.runs.parts().workspaces);
    let read = move || {
        let file = workspaces.identity(&agent.workspace, agent.identity.avatar.as_deref());
        Ok(Face::of(Some(&agent), file))
    };
    let read = files::blocking(read).await;
    read.unwrap_or_else(|_| Face::of(known, FileIdentity::default()))
}

/// Where files may lie that the assistant shows, as in the original.
pub(super) fn media_roots(settings: &Settings) -> Vec<PathBuf> {
    let state = &settings.paths.state_dir;
    let mut roots = vec![PathBuf::from(media::SHARED)];
    roots.extend(["media", "canvas", "workspace", "sandboxes"].map(|name| state.join(name)));
    if let Some(agent) = settings.agents.agent(&settings.agents.default_id)
        && !roots.contains(&agent.workspace)
    {
        roots.push(agent.workspace.clone());
    }
    roots
}
