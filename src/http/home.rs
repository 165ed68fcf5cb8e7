//! `/`: the Control UI, the way to a page, or what the gateway says of itself.

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};

use super::{Asked, about, page, ui};

pub(super) async fn answer(asked: Asked<'_>) -> Response {
    let Asked { gateway, parts, .. } = asked;
    if let Some(page) = ui::page_or_file(gateway, parts).await {
        return page;
    }
    if !ui::wants_page(&parts.headers) {
        return about::answer(gateway);
    }
    let settings = gateway.services.settings.now();
    let settings = &settings.gateway.ui;
    // Relative, because a proxy may have put the gateway elsewhere.
    let to = match settings.base_path.strip_prefix('/') {
        Some(base) if ui::is_installed(settings).await => format!("{base}/"),
        _ => page::PATH.trim_start_matches('/').to_owned(),
    };
    (StatusCode::FOUND, [(LOCATION, to)]).into_response()
}
