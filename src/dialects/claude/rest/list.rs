//! `GET /api/claude/sessions`, `…/sessions/all` and `…/sessions/:id`.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::cursor;
use super::find::{found, unavailable};
use super::shape::{Branches, Folders, Shape};
use super::state::Bustle;
use super::who::Who;
use crate::http::{Asked, ok};
use crate::registry::Services;
use crate::store::{Overview, OverviewFilter, OverviewPlace, OverviewQuery, OverviewRow};

/// Sessions of the list that has no pages: as many as an interface shows.
const EVERY_MAX: u32 = 1000;
/// Sessions on a page when nobody says how many.
const PAGE: u32 = 20;
/// Most sessions on a page.
const PAGE_MAX: u32 = 100;

/// `GET /api/claude/sessions`: those that nobody has put away.
pub(in crate::dialects::claude) async fn every(asked: Asked<'_>) -> Result<Response, Response> {
    let services = &asked.gateway.services;
    let query = OverviewQuery {
        filter: OverviewFilter::Active,
        limit: EVERY_MAX,
        ..OverviewQuery::default()
    };
    let overview = services.runs.parts().store.session_overview(query).await;
    let overview = overview.map_err(|error| unavailable(asked.manner, &error))?;
    let shapes = shapes(services, &Bustle::now(services), overview.rows);
    let branches = Branches::of(&shapes).await;
    let sessions: Vec<_> = shapes.iter().map(|shape| shape.whole(&branches)).collect();
    Ok(ok(&json!({"sessions": sessions})))
}

/// `GET /api/claude/sessions/all`: a page, the one in which a person was last
/// first.
pub(in crate::dialects::claude) async fn all(asked: Asked<'_>) -> Result<Response, Response> {
    let services = &asked.gateway.services;
    let wanted =
        Wanted::read(&asked).map_err(|why| asked.manner.error(StatusCode::BAD_REQUEST, why))?;
    let bustle = Bustle::now(services);
    let (shapes, total) = page(services, &bustle, &wanted)
        .await
        .map_err(|error| unavailable(asked.manner, &error))?;
    let limit = usize::try_from(wanted.limit).unwrap_or(usize::MAX);
    let next = shapes.get(limit.saturating_sub(1)).filter(|_| shapes.len() > limit);
    let next = next.map(|last| cursor::written(&last.place()));
    let branches = Branches::of(&shapes).await;
    let lines: Vec<_> = shapes.iter().take(limit).map(|shape| shape.line(&branches)).collect();
    Ok(ok(&json!({
        "sessions": lines,
        "pagination": {"hasMore": next.is_some(), "nextCursor": next, "totalCount": total},
    })))
}

/// `GET /api/claude/sessions/:id`.
pub(in crate::dialects::claude) async fn one(asked: Asked<'_>) -> Result<Response, Response> {
    let services = &asked.gateway.services;
    let listed = found(services, asked.manner, asked.path.get("id")).await?;
    Ok(ok(&whole(services, listed).await))
}

/// What is told of one session.
pub(super) fn shown(services: &Services, listed: OverviewRow) -> Shape {
    Shape::own(listed, &Bustle::now(services), &mut Folders::new(services))
}

/// `S` of one session.
pub(super) async fn whole(services: &Services, listed: OverviewRow) -> Value {
    let shape = [shown(services, listed)];
    let branches = Branches::of(&shape).await;
    let [shape] = shape;
    shape.whole(&branches)
}

/// `S` of the session with this id as it is now.
pub(super) async fn whole_by_id(who: &Who, id: &str) -> Result<Value, Response> {
    let listed = found(&who.services, who.manner, id).await?;
    Ok(whole(&who.services, listed).await)
}

fn shapes(services: &Services, bustle: &Bustle, rows: Vec<OverviewRow>) -> Vec<Shape> {
    let mut folders = Folders::new(services);
    rows.into_iter().map(|row| Shape::own(row, bustle, &mut folders)).collect()
}

/// What a request for a page asks for.
struct Wanted {
    limit: u32,
    filter: OverviewFilter,
    after: Option<OverviewPlace>,
}

impl Wanted {
    fn read(asked: &Asked<'_>) -> Result<Self, &'static str> {
        let limit = match asked.query("limit").filter(|text| !text.is_empty()) {
            None => PAGE,
            Some(text) => match text.parse::<u64>() {
                Ok(limit) if limit > 0 => u32::try_from(limit).unwrap_or(PAGE_MAX).min(PAGE_MAX),
                _ => return Err("limit must be a number from 1 to 100"),
            },
        };
        let filter = match asked.query("status").as_deref() {
            None | Some("" | "all") => OverviewFilter::All,
            Some("active") => OverviewFilter::Active,
            Some("archived") => OverviewFilter::Archived,
            Some(_) => return Err("status must be all, active or archived"),
        };
        let after = match asked.query("cursor").filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(cursor::read(&text).ok_or("cursor must be a nextCursor")?),
        };
        Ok(Self { limit, filter, after })
    }
}

/// The sessions of a page and one more if there is one, and how many there are on
/// all pages.
async fn page(
    services: &Services,
    bustle: &Bustle,
    wanted: &Wanted,
) -> Result<(Vec<Shape>, u64), crate::store::StoreError> {
    let query = OverviewQuery {
        filter: wanted.filter,
        limit: wanted.limit.saturating_add(1),
        after: wanted.after.clone(),
        hides_empty_but: Some(bustle.keys()),
        key: None,
    };
    let Overview { rows, total } = services.runs.parts().store.session_overview(query).await?;
    Ok((shapes(services, bustle, rows), total))
}
