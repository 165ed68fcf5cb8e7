//! What came of requests.

use serde_json::Value;

use super::parts::Outgoing;
use super::picker::{Item, Kind};
use super::place::{no_agent, short};
use super::{Ask, Effect, Overlay, Picker, Row, State};
use crate::cli::format::{count, span};
use crate::cli::tui::text::one_line;
use crate::cli::tui::transcript::{Body, Entry, Level, Page};
use crate::support::json;

/// Rows of one page of sessions.
const SESSIONS: u64 = 200;
/// More models than these are told in the list only.
const NAMED: usize = 8;
/// Who has more models than any list, and is in none without a key.
const OPEN_PROVIDER: &str = "openrouter";

impl State {
    pub(super) fn answer(&mut self, ask: Ask, result: Result<Value, String>) {
        match (ask, result) {
            (Ask::History(session, covers), result) => {
                self.history_answer(&session, &covers, result);
            }
            (Ask::Send(key), Ok(payload)) => self.sent(&key, &payload),
            (Ask::Send(key), Err(why)) => self.not_sent(&key, &why),
            (Ask::Row(session), Ok(payload)) if session == self.place.session => {
                let rows = payload["sessions"].as_array().map_or(&[][..], Vec::as_slice);
                let row = rows.iter().find(|row| row["key"] == session.as_str());
                self.row = Row::read(row.unwrap_or(&Value::Null), &payload["defaults"]);
            }
            (Ask::Abort, Ok(payload)) if payload["aborted"] != true => {
                self.note("nothing runs here");
            }
            (Ask::Patch(session, what), Ok(_)) => {
                self.note(&what);
                if session == self.place.session {
                    self.read_row();
                }
            }
            (Ask::Reset(session), Ok(_)) if session == self.place.session => {
                self.transcript.clear();
                self.note("the session begins anew");
                self.read_history();
                self.read_row();
            }
            (Ask::Create, Ok(payload)) => {
                if let Some(key) = payload["key"].as_str() {
                    let key = key.to_owned();
                    self.go(|place| place.go(&key));
                }
            }
            (Ask::Sessions(search), Ok(payload)) => self.sessions_answer(&search, &payload),
            (Ask::Models, Ok(payload)) => self.models_answer(&payload),
            (Ask::Agents, Ok(payload)) => self.agents_answer(&payload),
            (Ask::Model(session, name), Ok(payload)) if session == self.place.session => {
                self.model_answer(&name, &payload);
            }
            (Ask::Agent(id), Ok(payload)) => match no_agent(&payload, &id) {
                Some(why) => self.fail(&why),
                None => self.go(|place| place.go_to_agent(&id)),
            },
            (Ask::Commands, Ok(payload)) => self.commands_answer(&payload),
            (Ask::Approvals, Ok(payload)) => self.approvals.replace(&payload, self.now),
            (Ask::Decide(id, decision), Ok(_)) => {
                if let Some(question) = self.approvals.remove(&id, self.now) {
                    self.note(&format!("{}: {}", decision.as_str(), question.command.join("\n")));
                }
            }
            (Ask::Decide(id, _), Err(why)) => {
                self.approvals.remove(&id, self.now);
                self.fail(&why);
                self.ask(Ask::Approvals, "exec.approval.list", json!({}));
            }
            (Ask::Sessions(_) | Ask::Models | Ask::Agents, Err(why)) => {
                self.overlay = None;
                self.fail(&why);
            }
            // Who may not decide, and a gateway without a list, are no matter here.
            (Ask::Approvals | Ask::Commands | Ask::Follow | Ask::Row(_), Err(_)) | (_, Ok(_)) => {}
            (_, Err(why)) => self.fail(&why),
        }
    }

    fn history_answer(&mut self, session: &str, covers: &[String], result: Result<Value, String>) {
        if session != self.place.session {
            return;
        }
        let is_old = self.reading.end();
        match result {
            Ok(payload) => {
                let page = Page::read(&payload);
                self.reading.is_cut =
                    u64::try_from(page.count).is_ok_and(|count| count >= self.history_limit);
                let is_waiting =
                    |it: &Entry| matches!(it.body, Body::User { is_waiting: true, .. });
                let waits = page.entries.iter().any(is_waiting);
                for text in &page.typed {
                    self.editor.remember(text);
                }
                self.transcript.load(page, covers);
                self.taken.retain(|key| !covers.contains(key));
                // The page may still call a run active that has told its end.
                if self.transcript.live().is_none() && !waits && !is_old {
                    self.open_runs.retain(|run| !covers.contains(run));
                }
                self.tell_ending();
            }
            Err(why) => self.fail(&format!("the history cannot be read: {why}")),
        }
        if is_old {
            self.read_history();
        }
    }

    /// Says how the last run ended, unless the history does.
    fn tell_ending(&mut self) {
        let Some((level, text)) = self.ending.take() else { return };
        let last = self.transcript.entries().last();
        let is_told = level == Level::Error
            && last.is_some_and(|entry| entry.is_of_history() && entry.id.ends_with(":e"));
        if !is_told {
            self.transcript.notice(level, &text);
        }
    }

    /// The outgoing message with this key, which is on its way no more.
    fn arrived(&mut self, key: &str) -> Option<Outgoing> {
        let at = self.outbox.iter().position(|message| message.key == key)?;
        Some(self.outbox.remove(at))
    }

    fn sent(&mut self, key: &str, payload: &Value) {
        // The user may have gone to another session meanwhile.
        if self.arrived(key).is_some_and(|message| message.session != self.place.session) {
            return;
        }
        self.transcript.taken(key);
        self.taken.push(key.to_owned());
        if payload["aborted"].is_boolean() {
            let stopped = payload["runIds"].as_array().map_or(0, Vec::len);
            self.note(&format!("runs stopped: {stopped}"));
            return;
        }
        let run = payload["runId"].as_str().unwrap_or(key);
        // Its end may be told before this.
        if payload["status"] == "ok" || self.transcript.has_ended(run) {
            self.read_history();
        } else {
            self.open_runs.push(run.to_owned());
        }
    }

    fn not_sent(&mut self, key: &str, why: &str) {
        let message = self.arrived(key);
        if let Some(message) = &message
            && message.session != self.place.session
        {
            let session = short(&message.session, &self.place.agent);
            self.fail(&format!("{session}: {why}; not said there: {}", message.text));
            return;
        }
        self.transcript.refused(key);
        self.fail(why);
        if let Some(message) = message
            && self.editor.is_empty()
        {
            self.editor.set(&message.text);
        }
    }

    /// Opens a choice; the gateway is asked what there is.
    pub(super) fn open(&mut self, kind: Kind) {
        self.overlay = Some(Overlay::Picker(Picker::loading(kind)));
        match kind {
            Kind::Sessions => self.search_sessions(""),
            Kind::Models => self.ask(Ask::Models, "models.list", json!({})),
            Kind::Agents => self.ask(Ask::Agents, "agents.list", json!({})),
            Kind::Thinking => self.fill_thinking(),
            Kind::Settings => self.fill_settings(),
        }
    }

    pub(super) fn search_sessions(&mut self, search: &str) {
        let mut params = json!({"agentId": self.place.agent, "limit": SESSIONS,
            "includeDerivedTitles": true, "includeLastMessage": true});
        if !search.is_empty() {
            params["search"] = json!(search);
        }
        self.ask(Ask::Sessions(search.to_owned()), "sessions.list", params);
    }

    pub(super) fn fill(&mut self, kind: Kind, items: Vec<Item>) {
        if let Some(Overlay::Picker(picker)) = &mut self.overlay
            && picker.kind == kind
        {
            picker.fill(items);
        }
    }

    fn sessions_answer(&mut self, search: &str, payload: &Value) {
        let rows = payload["sessions"].as_array().map_or(&[][..], Vec::as_slice);
        let mut items = vec![Item {
            title: "+ new session".to_owned(),
            detail: "Ctrl+N".to_owned(),
            ..Item::default()
        }];
        items.extend(rows.iter().filter_map(|row| self.session_item(row)));
        if let Some(Overlay::Picker(picker)) = &mut self.overlay
            && picker.kind == Kind::Sessions
            && (search.is_empty() || picker.filter.trim() == search)
        {
            picker.has_more |= payload["hasMore"] == true;
            picker.fill(items);
        }
    }

    fn session_item(&self, row: &Value) -> Option<Item> {
        let key = row["key"].as_str()?;
        let name = short(key, &self.place.agent);
        let text = |name: &str| row[name].as_str().map(one_line).filter(|text| !text.is_empty());
        let title = text("label").or_else(|| text("derivedTitle")).or_else(|| text("displayName"));
        let age = row["updatedAt"]
            .as_u64()
            .map(|at| format!("{} ago", span(self.now.saturating_sub(at))));
        let running = (row["hasActiveRun"] == true).then(|| "running".to_owned());
        let details =
            [title.as_ref().map(|_| one_line(name)), running, age, text("lastMessagePreview")];
        Some(Item {
            id: key.to_owned(),
            title: title.unwrap_or_else(|| one_line(name)),
            detail: details.into_iter().flatten().collect::<Vec<_>>().join(" · "),
            is_current: key == self.place.session,
        })
    }

    fn models_answer(&mut self, payload: &Value) {
        let models = payload["models"].as_array().map_or(&[][..], Vec::as_slice);
        let mut items = vec![Item {
            id: "default".to_owned(),
            title: "default".to_owned(),
            detail: "what the configuration says".to_owned(),
            is_current: false,
        }];
        items.extend(models.iter().filter_map(|model| {
            let id = full_name(model)?;
            let context =
                model["contextWindow"].as_u64().map(|tokens| format!("{} tokens", count(tokens)));
            let thinks = (model["reasoning"] == true).then(|| "thinks".to_owned());
            let name = model["name"].as_str().map(one_line);
            let details = [name, context, thinks].into_iter().flatten();
            Some(Item {
                title: one_line(&id),
                detail: details.collect::<Vec<_>>().join(" · "),
                is_current: id == self.row.model,
                id,
            })
        }));
        self.fill(Kind::Models, items);
    }

    /// Sets the model that is called so. The gateway would keep any name.
    fn model_answer(&mut self, name: &str, payload: &Value) {
        let models = payload["models"].as_array().map_or(&[][..], Vec::as_slice);
        if let Some(full) = model_named(models, name) {
            self.set_model(&full);
            return;
        }
        if let Some(full) = unlisted(models, name) {
            self.note(&format!("{full} is in no list; its provider is asked for it"));
            self.set_model(&full);
            return;
        }
        let mut names: Vec<_> = models.iter().filter_map(full_name).take(NAMED + 1).collect();
        if names.len() > NAMED {
            names.truncate(NAMED);
            names.push("…".to_owned());
        }
        let there = names.join(", ");
        self.fail(&format!("there is no model \"{name}\"; there are {there} (/models shows all)"));
    }

    fn agents_answer(&mut self, payload: &Value) {
        let agents = payload["agents"].as_array().map_or(&[][..], Vec::as_slice);
        let items = agents.iter().filter_map(|agent| {
            let id = agent["id"].as_str()?;
            let name =
                ["/name", "/identity/name"].iter().find_map(|at| agent.pointer(at)?.as_str());
            let model = agent.pointer("/model/primary").and_then(Value::as_str);
            let details = [name, model].into_iter().flatten().map(one_line);
            Some(Item {
                id: id.to_owned(),
                title: one_line(id),
                detail: details.collect::<Vec<_>>().join(" · "),
                is_current: id == self.place.agent,
            })
        });
        let items = items.collect();
        self.fill(Kind::Agents, items);
    }

    fn commands_answer(&mut self, payload: &Value) {
        let all = payload["commands"].as_array().map_or(&[][..], Vec::as_slice);
        let command = |command: &Value| {
            let alias = command["textAliases"][0].as_str()?;
            Some((one_line(alias), one_line(command["description"].as_str().unwrap_or_default())))
        };
        self.commands = all.iter().filter_map(command).collect();
    }

    /// Reads more of the history, if there is more.
    pub(super) fn read_older(&mut self) {
        /// The most that the gateway gives.
        const MOST: u64 = 1000;
        if self.reading.is_cut && self.history_limit < MOST {
            self.history_limit = MOST;
            self.read_history();
        }
        self.do_it(Effect::Top);
    }
}

fn full_name(model: &Value) -> Option<String> {
    Some(format!("{}/{}", model["provider"].as_str()?, model["id"].as_str()?))
}

/// The full name of a model that may be there although no list has it: a provider has newer
/// ones than anybody here knows.
fn unlisted(models: &[Value], name: &str) -> Option<String> {
    let (provider, model) = name.split_once('/').filter(|(_, model)| !model.is_empty())?;
    let is_open = provider == OPEN_PROVIDER && model.contains('/');
    let mut listed = models.iter().filter_map(|row| row["provider"].as_str());
    let known = listed.find(|listed| listed.eq_ignore_ascii_case(provider));
    known.or(is_open.then_some(provider)).map(|provider| format!("{provider}/{model}"))
}

/// The full name of the model that is called so: by it, by its alias, or by its own name.
fn model_named(models: &[Value], name: &str) -> Option<String> {
    let is = |value: &Value| value.as_str().is_some_and(|it| it.eq_ignore_ascii_case(name));
    let is_full = |model: &&Value| full_name(model).is_some_and(|it| it.eq_ignore_ascii_case(name));
    let found = models.iter().find(is_full);
    let found = found.or_else(|| models.iter().find(|model| is(&model["alias"])));
    found.or_else(|| models.iter().find(|model| is(&model["id"]))).and_then(full_name)
}
