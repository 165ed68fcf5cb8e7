//! The table of what can be asked for by HTTP. The APIs of other software have
//! tables of their own, in `dialects`.
//!
//! `tests/security/http_rights.txt` says for each line who gets an answer.

use std::future::ready;

use axum::http::Method;
use axum::response::Response;

use crate::dialects::{self, Dialect};
use crate::gateway::Gateway;
use crate::protocol::Scope;
use crate::support::BoxFuture;

use super::manner::Manner;
use super::pattern::{self, PathValues, fit};
use super::{
    Asked, health, home, hooks, metrics, openapi, page, sessions, tools_invoke, ui, uploads,
    webhooks,
};

/// Which requests a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Those for this path.
    Path(&'static str),
    /// Those for a path like this one, where `:name` stands for any segment. Of
    /// several lines for one path each has other methods; who may GET may HEAD.
    Api(&'static str),
    /// Those for a path like this one, and for the methods that are named only: as
    /// the original has it.
    Like(&'static str),
    /// Those for our own page.
    Page,
    /// Those for the paths of channels, which the configuration names.
    Hooks,
    /// Those for the path of hooks and what is below it, where the configuration
    /// has it.
    Webhooks,
    /// Those for this path, below the base path of the Control UI or not: our own page
    /// may be at both.
    PagePath(&'static str),
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
    /// A ticket in its address for just this, from anywhere, or else the same as for
    /// [`Self::Caller`]. The route looks at the ticket (see [`Asked::let_in`]).
    Ticket(Scope),
    /// A credential, where clients of the API have it, of somebody who may do so
    /// much; from no page that is not allowed. Looked at before the body is read.
    Caller(Scope),
    /// On this machine the same as `Caller(Scope::Admin)`. Elsewhere a caller who may
    /// write, and names the session for which he asks: the route looks at that.
    Requester,
}

impl Entry {
    /// Whether any page may ask: what proves by itself who sent it may come from
    /// anywhere, and so may who wants what everybody gets.
    pub const fn is_for_any_page(self) -> bool {
        matches!(self, Self::Public | Self::Signed | Self::Ticket(_))
    }
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
    pub(crate) answer: fn(Asked<'_>) -> BoxFuture<'_, Response>,
}

impl Route {
    /// Whether it is for this method, too.
    pub fn takes(&self, method: &Method) -> bool {
        let by_get = || *method == Method::HEAD && matches!(self.place, Place::Api(_));
        self.methods.contains(method) || (by_get() && self.methods.contains(&Method::GET))
    }
}

/// Every line of every table, in the order in which they are looked at.
pub fn all_routes() -> impl Iterator<Item = &'static Route> {
    let is_last = |route: &&Route| route.place == Place::Ui;
    let dialects = dialects::ALL.iter().flat_map(|dialect| dialect.routes);
    let (first, last) = (ROUTES.iter(), ROUTES.iter().filter(is_last));
    first.filter(move |route| !is_last(route)).chain(dialects).chain(last)
}

/// Everything that the gateway itself answers but upgrades. Its own paths come
/// first: no configuration takes them away.
pub static ROUTES: [Route; 19] = [
    Route {
        place: Place::Path("/health"),
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Public,
        answer: |asked| Box::pin(ready(health::live_as(&asked))),
    },
    Route {
        place: Place::Path("/healthz"),
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Public,
        answer: |_| Box::pin(ready(health::live())),
    },
    Route {
        place: Place::Path("/ready"),
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Public,
        answer: |asked| Box::pin(health::ready(asked)),
    },
    Route {
        place: Place::Path("/readyz"),
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Public,
        answer: |asked| Box::pin(health::ready(asked)),
    },
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
        place: Place::Path(openapi::PATH),
        methods: &[Method::GET, Method::HEAD],
        entry: Entry::Public,
        answer: |asked| Box::pin(ready(openapi::answer(&asked.parts.headers))),
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
        place: Place::Webhooks,
        methods: &[Method::POST],
        entry: Entry::Signed,
        answer: |asked| Box::pin(webhooks::answer(asked)),
    },
    Route {
        place: Place::Like("/tools/invoke"),
        methods: &[Method::POST],
        entry: Entry::Caller(Scope::Write),
        answer: |asked| Box::pin(tools_invoke::answer(asked)),
    },
    Route {
        place: Place::Like("/sessions/:key/history"),
        methods: &[Method::GET],
        entry: Entry::Caller(Scope::Read),
        answer: |asked| Box::pin(sessions::history(asked)),
    },
    Route {
        place: Place::Like("/sessions/:key/kill"),
        methods: &[Method::POST],
        entry: Entry::Requester,
        answer: |asked| Box::pin(sessions::kill(asked)),
    },
    Route {
        place: Place::PagePath(uploads::PATH),
        methods: &[Method::GET, Method::HEAD, Method::POST],
        entry: Entry::Caller(Scope::Write),
        answer: |asked| Box::pin(uploads::answer(asked)),
    },
    Route {
        place: Place::Folder(ui::outgoing::FOLDER),
        methods: &[Method::GET, Method::HEAD],
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

/// What is at a path.
pub(super) enum Found {
    /// A line that takes the method.
    Line { route: &'static Route, values: PathValues, manner: Manner },
    /// Lines that take others.
    OtherMethods { place: Place, entry: Entry, allowed: String, manner: Manner },
    /// Nothing.
    Nothing(Manner),
}

impl Found {
    /// Where it is; none where nothing is.
    pub const fn place(&self) -> Option<Place> {
        match self {
            Self::Line { route, .. } => Some(route.place),
            Self::OtherMethods { place, .. } => Some(*place),
            Self::Nothing(_) => None,
        }
    }

    /// Who is answered there.
    pub const fn entry(&self) -> Option<Entry> {
        match self {
            Self::Line { route, .. } => Some(route.entry),
            Self::OtherMethods { entry, .. } => Some(*entry),
            Self::Nothing(_) => None,
        }
    }

    /// In which words it is refused.
    pub const fn manner(&self) -> Manner {
        match self {
            Self::Line { manner, .. }
            | Self::OtherMethods { manner, .. }
            | Self::Nothing(manner) => *manner,
        }
    }
}

/// Whose a request is.
pub(super) fn find(gateway: &Gateway, method: &Method, path: &str) -> Found {
    let own = |is_last: bool| {
        let lines = ROUTES.iter().filter(move |route| (route.place == Place::Ui) == is_last);
        let line = lines.into_iter().find(|route| is_at(gateway, method, path, route.place))?;
        let values = match line.place {
            Place::Like(pattern) => fit(pattern, path),
            _ => None,
        };
        Some(among(&[(line, values.unwrap_or_default())], method, Manner::Recorded))
    };
    own(false)
        .or_else(|| of_dialects(gateway, method, path))
        .or_else(|| own(true))
        .unwrap_or_else(|| Found::Nothing(manner_of(gateway, path)))
}

fn is_at(gateway: &Gateway, method: &Method, path: &str, place: Place) -> bool {
    let below = || ui::below(gateway, path);
    match place {
        Place::Path(own) => own == path,
        Place::Api(pattern) | Place::Like(pattern) => fit(pattern, path).is_some(),
        Place::Page => page::is_its(gateway, path),
        Place::PagePath(own) => page::is_at(gateway, path, |path| path == own),
        Place::Hooks => hooks::limit(gateway, path).is_some(),
        Place::Webhooks => webhooks::has(gateway, path),
        Place::UiPath(own) => below() == Some(own),
        Place::UiFolder(own) => below().is_some_and(|it| it.starts_with(own)),
        Place::Folder(own) => {
            path.starts_with(own) || below().is_some_and(|it| it.starts_with(own))
        }
        Place::Ui => ui::has(gateway, method, path),
    }
}

fn of_dialects(gateway: &Gateway, method: &Method, path: &str) -> Option<Found> {
    dialects::at(gateway, path).find_map(|(dialect, path)| in_table(dialect, method, path))
}

/// The lines of a dialect whose pattern says most of the path.
fn in_table(dialect: &'static Dialect, method: &Method, path: &str) -> Option<Found> {
    let fitting = dialect.routes.iter().filter_map(|route| match route.place {
        Place::Api(pattern) => Some((pattern, (route, fit(pattern, path)?))),
        _ => None,
    });
    let fitting: Vec<_> = fitting.collect();
    let best = fitting.iter().map(|(pattern, _)| *pattern).max_by(|a, b| pattern::compare(a, b))?;
    let is_best = |pattern: &str| pattern::compare(pattern, best).is_eq();
    let lines = fitting.into_iter().filter(|(pattern, _)| is_best(pattern)).map(|(_, line)| line);
    Some(among(&lines.collect::<Vec<_>>(), method, dialect.manner))
}

/// Of the lines for a path the one for the method.
fn among(lines: &[(&'static Route, PathValues)], method: &Method, manner: Manner) -> Found {
    if let Some((route, values)) = lines.iter().find(|(route, _)| route.takes(method)) {
        return Found::Line { route, values: values.clone(), manner };
    }
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    let allowed: Vec<_> = known
        .iter()
        .filter(|method| lines.iter().any(|(route, _)| route.takes(method)))
        .map(Method::as_str)
        .collect();
    // All lines of a path are for the same page or for any; the strictest counts.
    let entry = lines.iter().map(|(route, _)| route.entry).find(|entry| !entry.is_for_any_page());
    let entry = entry.unwrap_or(Entry::Public);
    // Nor are there lines for programs and others for people.
    let place = lines.first().map_or(Place::Ui, |(route, _)| route.place);
    Found::OtherMethods { place, entry, allowed: allowed.join(", "), manner }
}

/// How is said that nothing is at this path: as the dialect says it that has its
/// beginning, `/api/claude` and the like.
fn manner_of(gateway: &Gateway, path: &str) -> Manner {
    fn beginning(path: &str) -> Vec<&str> {
        path.split('/').take(3).collect()
    }
    let has = |dialect: &Dialect, path: &str| {
        dialect.routes.iter().any(|route| match route.place {
            Place::Api(pattern) => beginning(pattern) == beginning(path),
            _ => false,
        })
    };
    dialects::at(gateway, path)
        .find(|(dialect, path)| has(dialect, path))
        .map_or(Manner::Recorded, |(dialect, _)| dialect.manner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;

    const fn line(place: &'static str, methods: &'static [Method]) -> Route {
        let answer: fn(Asked<'_>) -> BoxFuture<'_, Response> =
            |_| Box::pin(ready(Response::default()));
        Route { place: Place::Api(place), methods, entry: Entry::Caller(Scope::Read), answer }
    }

    static LINES: [Route; 4] = [
        line("/api/s/:id", &[Method::GET]),
        line("/api/s/:id", &[Method::PATCH, Method::DELETE]),
        line("/api/s/all", &[Method::POST]),
        line("/api/s", &[Method::GET]),
    ];
    static DIALECT: Dialect =
        Dialect { name: "x", manner: Manner::Claude, routes: &LINES, sockets: &[] };

    fn told(method: &Method, path: &str) -> String {
        match in_table(&DIALECT, method, path) {
            Some(Found::Line { route, values, .. }) => {
                let Place::Api(pattern) = route.place else { unreachable!() };
                format!("{pattern} {}", values.get("id"))
            }
            Some(Found::OtherMethods { allowed, .. }) => allowed,
            Some(Found::Nothing(_)) | None => String::new(),
        }
    }

    #[test]
    fn the_method_chooses_among_the_lines_of_a_path() {
        assert_eq!(told(&Method::GET, "/api/s/a%20b"), "/api/s/:id a b");
        assert_eq!(told(&Method::HEAD, "/api/s/1"), "/api/s/:id 1");
        assert_eq!(told(&Method::DELETE, "/api/s/1"), "/api/s/:id 1");
        assert_eq!(told(&Method::PUT, "/api/s/1"), "GET, HEAD, PATCH, DELETE");
        assert_eq!(told(&Method::GET, "/api/s/"), "");
        assert_eq!(told(&Method::GET, "/api/t"), "");
    }

    #[test]
    fn no_path_of_hooks_takes_a_path_of_the_gateway_away() {
        let own = all_routes().filter_map(|route| match route.place {
            Place::Path(path)
            | Place::Api(path)
            | Place::Like(path)
            | Place::PagePath(path)
            | Place::UiPath(path)
            | Place::UiFolder(path)
            | Place::Folder(path) => path.split('/').nth(1).filter(|first| !first.is_empty()),
            Place::Page | Place::Hooks | Place::Webhooks | Place::Ui => None,
        });
        let refusal = |first: &str| {
            let hooks = crate::support::json!({"hooks": {"path": format!("/{first}/x")}});
            crate::config::preview(&hooks.to_string(), &crate::config::Env::fixed([], "/h")).err()
        };
        for first in own.collect::<std::collections::BTreeSet<_>>() {
            let said = refusal(first).map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains("something else"), "/{first}: {said}");
        }
        assert!(refusal("in").is_none());
    }

    #[test]
    fn a_word_comes_before_a_name_whatever_the_method() {
        assert_eq!(told(&Method::POST, "/api/s/all"), "/api/s/all ");
        assert_eq!(told(&Method::GET, "/api/s/all"), "POST");
    }
}
