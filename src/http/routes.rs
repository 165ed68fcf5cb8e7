//! The table of what can be asked for by HTTP.
//!
//! `tests/security/http_rights.txt` says for each line who gets an answer.

use std::future::ready;

use axum::http::Method;
use axum::response::Response;

use crate::gateway::Gateway;
use crate::support::BoxFuture;

use super::{Asked, home, hooks, metrics, page, ui};

/// Which requests a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Those for this path.
    Path(&'static str),
    /// Those for our own page.
    Page,
    /// Those for the paths of channels, which the configuration names.
    Hooks,
    /// Those for this path below the base path of the Control UI.
    UiPath(&'static str),
    /// Those below this path below the base path.
    UiFolder(&'static str),
    /// Those below this path, below the base path or not.
    Folder(&'static str),
    /// What is left below the base path of the Control UI, when it is read.
    Ui,
}

/// What a request has to show before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Nothing; so no page that is not allowed may ask, and nobody under a name
    /// that may be anybody's.
    Open,
    /// Nothing, from anywhere: it is the same for everybody.
    Public,
    /// The gateway's token or password, or a token of a device that may read; from
    /// no page that is not allowed.
    Reader,
    /// A proof that belongs to the route, which looks at it before all else.
    Signed,
}

/// One line of the table.
pub struct Route {
    /// For which requests it is.
    pub place: Place,
    /// The methods that it takes.
    pub methods: &'static [Method],
    /// Who is answered.
    pub entry: Entry,
    /// Answers.
    pub(super) answer: fn(Asked<'_>) -> BoxFuture<'_, Response>,
}

/// Everything that is answered but upgrades. The paths of the gateway itself
/// come first: no configuration takes them away.
pub static ROUTES: [Route; 9] = [
    Route {
        place: Place::Path("/"),
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Open,
        answer: |asked| Box::pin(home::answer(asked)),
    },
    Route {
        place: Place::Path(metrics::PATH),
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Reader,
        answer: |asked| Box::pin(metrics::answer(asked)),
    },
    Route {
        place: Place::Page,
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Public,
        answer: |asked| Box::pin(ready(page::answer(&asked))),
    },
    Route {
        place: Place::Hooks,
        methods: &[Method::POST],
        entry: Entry::Signed,
        answer: |asked| Box::pin(hooks::answer(asked)),
    },
    Route {
        place: Place::Folder(ui::outgoing::FOLDER),
        methods: &[Method::GET],
        entry: Entry::Reader,
        answer: |asked| Box::pin(ui::outgoing::answer(asked)),
    },
    Route {
        place: Place::UiPath(ui::media::PATH),
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Reader,
        answer: |asked| Box::pin(ui::media::answer(asked)),
    },
    Route {
        place: Place::UiFolder(ui::avatar::FOLDER),
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Reader,
        answer: |asked| Box::pin(ui::avatar::answer(asked)),
    },
    Route {
        place: Place::UiPath(ui::RUNTIME),
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Reader,
        answer: |asked| Box::pin(ui::runtime::answer(asked)),
    },
    Route {
        place: Place::Ui,
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Open,
        answer: |asked| Box::pin(ui::answer(asked)),
    },
];

/// Whose a request is.
pub(super) fn find(gateway: &Gateway, method: &Method, path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| match route.place {
        Place::Path(own) => own == path,
        Place::Page => page::is_its(gateway, path),
        Place::Hooks => hooks::limit(gateway, path).is_some(),
        Place::UiPath(own) => ui::below(gateway, path) == Some(own),
        Place::UiFolder(own) => ui::below(gateway, path).is_some_and(|it| it.starts_with(own)),
        Place::Folder(own) => {
            path.starts_with(own) || ui::below(gateway, path).is_some_and(|it| it.starts_with(own))
        }
        Place::Ui => ui::has(gateway, method, path),
    })
}
