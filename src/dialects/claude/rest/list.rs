//! `GET /api/claude/sessions`, `…/sessions/all` and `…/sessions/:id`.

use std::cmp::Reverse;
use std::collections::HashMap;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::find::{by_id, unavailable};
use super::shape::{Branches, Folders, Shape};
use super::state::Bustle;
use super::who::Who;
use super::{cursor, theirs};
use crate::dialects::claude::projects::Head;
use crate::gateway::Gateway;
use crate::http::{Asked, ok};
use crate::registry::Services;
use crate::store::{
    OverviewFilter, OverviewPlace, OverviewQuery, OverviewRow, SessionMarks, StoreError,
};
use crate::support::{json, sort};

/// Sessions of the list that has no pages: as many as an interface shows.
const EVERY_MAX: u32 = 1000;
/// Of those that Claude Code has itself: each has a file that is looked into.
const THEIRS_MAX: usize = 100;
/// Sessions on a page when nobody says how many.
const PAGE: u32 = 20;
/// Most sessions on a page.
const PAGE_MAX: u32 = 100;

/// `GET /api/claude/sessions`: those that nobody has put away, in the order of the pages.
pub(in crate::dialects::claude) async fn every(asked: Asked<'_>) -> Result<Response, Response> {
    let (gateway, manner) = (asked.gateway, asked.manner);
    let unavailable = |error| unavailable(manner, &error);
    let query = OverviewQuery {
        filter: OverviewFilter::Active,
        limit: EVERY_MAX,
        include_global: gateway.services.keys.now().global_scope,
        ..OverviewQuery::default()
    };
    let own = gateway.services.runs.parts().store.session_overview(query).await;
    let own = own.map_err(unavailable)?.rows.into_iter().map(Candidate::own);
    let theirs = theirs::heads(gateway, OverviewFilter::Active).await.map_err(unavailable)?;
    let theirs = theirs.into_iter().take(THEIRS_MAX).map(Candidate::theirs);
    let candidates = in_order(own.chain(theirs));
    let shapes = shapes(gateway, &Bustle::now(&gateway.services), candidates).await;
    let branches = Branches::of(&shapes).await;
    let sessions: Vec<_> = shapes.iter().map(|shape| shape.whole(&branches)).collect();
    Ok(ok(&json!({"sessions": sessions})))
}

/// `GET /api/claude/sessions/all`: a page, the one in which a person was last
/// first.
pub(in crate::dialects::claude) async fn all(asked: Asked<'_>) -> Result<Response, Response> {
    let gateway = asked.gateway;
    let wanted =
        Wanted::read(&asked).map_err(|why| asked.manner.error(StatusCode::BAD_REQUEST, why))?;
    let bustle = Bustle::now(&gateway.services);
    let page = page(gateway, &bustle, &wanted).await;
    let Page { candidates, next, total } =
        page.map_err(|error| unavailable(asked.manner, &error))?;
    let shapes = shapes(gateway, &bustle, candidates).await;
    let branches = Branches::of(&shapes).await;
    let lines: Vec<_> = shapes.iter().map(|shape| shape.line(&branches)).collect();
    Ok(ok(&json!({
        "sessions": lines,
        "pagination": {"hasMore": next.is_some(), "nextCursor": next, "totalCount": total},
    })))
}

/// `GET /api/claude/sessions/:id`.
pub(in crate::dialects::claude) async fn one(asked: Asked<'_>) -> Result<Response, Response> {
    let (gateway, manner, id) = (asked.gateway, asked.manner, asked.path.get("id"));
    let found = by_id(&gateway.services, id).await.map_err(|error| unavailable(manner, &error))?;
    let shape = if let Some(listed) = found {
        shown(&gateway.services, listed)
    } else {
        let (session, marks) = theirs::found(gateway, manner, id).await?;
        Shape::theirs(session, &marks)
    };
    Ok(ok(&whole(shape).await))
}

/// What is told of one session.
pub(super) fn shown(services: &Services, listed: OverviewRow) -> Shape {
    Shape::own(listed, &Bustle::now(services), &mut Folders::new(services))
}

/// `S` of one session.
async fn whole(shape: Shape) -> Value {
    let shape = [shape];
    let branches = Branches::of(&shape).await;
    let [shape] = shape;
    shape.whole(&branches)
}

/// `S` of our session with this id as it is now.
pub(super) async fn whole_by_id(who: &Who, id: &str) -> Result<Value, Response> {
    let listed = who.own(id).await?;
    Ok(whole(shown(&who.services, listed)).await)
}

/// A session that belongs on a page.
enum Candidate {
    Own(Box<OverviewRow>),
    Theirs(Head, SessionMarks),
}

impl Candidate {
    fn own(listed: OverviewRow) -> Self {
        Self::Own(Box::new(listed))
    }

    fn theirs((head, marks): (Head, SessionMarks)) -> Self {
        Self::Theirs(head, marks)
    }

    fn place(&self) -> OverviewPlace {
        match self {
            Self::Own(listed) => OverviewPlace {
                user_at: listed.user_at,
                session_id: listed.row.entry.session_id.clone(),
            },
            Self::Theirs(head, _) => theirs::place(head),
        }
    }
}

/// These, the one in which a person was last first.
fn in_order(all: impl Iterator<Item = Candidate>) -> Vec<Candidate> {
    let mut all: Vec<_> = all.collect();
    sort::by_key(&mut all, |candidate| Reverse(candidate.place()));
    all
}

/// What is told of these, in their order.
async fn shapes(gateway: &Gateway, bustle: &Bustle, candidates: Vec<Candidate>) -> Vec<Shape> {
    let heads = candidates.iter().filter_map(|candidate| match candidate {
        Candidate::Own(_) => None,
        Candidate::Theirs(head, _) => Some(head.clone()),
    });
    let described = theirs::described(gateway, heads.collect()).await;
    let mut described: HashMap<_, _> =
        described.into_iter().map(|session| (session.id.clone(), session)).collect();
    let mut folders = Folders::new(&gateway.services);
    let shape = |candidate| match candidate {
        Candidate::Own(listed) => Some(Shape::own(*listed, bustle, &mut folders)),
        Candidate::Theirs(head, marks) => Some(Shape::theirs(described.remove(&head.id)?, &marks)),
    };
    candidates.into_iter().filter_map(shape).collect()
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

/// A page before anything is said of its sessions.
struct Page {
    candidates: Vec<Candidate>,
    /// Where the next one begins, if there is one.
    next: Option<String>,
    /// How many there are on all pages.
    total: u64,
}

async fn page(gateway: &Gateway, bustle: &Bustle, wanted: &Wanted) -> Result<Page, StoreError> {
    let limit = usize::try_from(wanted.limit).unwrap_or(usize::MAX);
    let query = OverviewQuery {
        filter: wanted.filter,
        limit: wanted.limit.saturating_add(1),
        after: wanted.after.clone(),
        hides_empty_but: Some(bustle.keys()),
        include_global: gateway.services.keys.now().global_scope,
        key: None,
    };
    let own = gateway.services.runs.parts().store.session_overview(query).await?;
    let theirs = theirs::heads(gateway, wanted.filter).await?;
    let total = own.total.saturating_add(u64::try_from(theirs.len()).unwrap_or(u64::MAX));
    let is_due =
        |head: &Head| wanted.after.as_ref().is_none_or(|after| theirs::place(head) < *after);
    let theirs = theirs.into_iter().filter(|(head, _)| is_due(head)).take(limit.saturating_add(1));
    let own_rows = own.rows.into_iter().map(Candidate::own);
    let mut candidates = in_order(own_rows.chain(theirs.map(Candidate::theirs)));
    let has_more = candidates.len() > limit;
    candidates.truncate(limit);
    let last = candidates.last().filter(|_| has_more);
    let next = last.map(|last| cursor::written(&last.place()));
    Ok(Page { candidates, next, total })
}
