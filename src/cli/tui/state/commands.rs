//! Slash commands that are done here, and what choices do.

use crate::support::json;

use super::picker::{Item, Kind};
use super::{Ask, Effect, Overlay, State};

/// Commands of this screen: name, what may follow, what it does. All others go to the gateway.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("/help", "", "Show keys and commands."),
    ("/agent", "[id]", "Talk with another agent."),
    ("/agents", "", "Choose an agent."),
    ("/session", "[key]", "Go to a session."),
    ("/sessions", "", "Choose a session."),
    ("/model", "[provider/model|default]", "Set the model of this session."),
    ("/models", "", "Choose a model."),
    ("/think", "[level|default]", "Set how much the model thinks."),
    ("/new", "", "Begin a new session."),
    ("/reset", "", "Begin this session anew."),
    ("/abort", "", "Stop what runs."),
    ("/approvals", "", "Show the command that waits for you."),
    ("/deliver", "on|off", "Send answers to the session's channel as well."),
    ("/settings", "", "Choose what is shown."),
    ("/exit", "", "Leave; also /quit."),
];

impl State {
    /// What the user typed and sent.
    pub(super) fn submit(&mut self) {
        let text = self.editor.text().trim_end().to_owned();
        if text.trim().is_empty() {
            return;
        }
        if text.len() > 1 && text.starts_with('!') && !text.contains('\n') {
            self.note("no shell here: ask the agent to run it, or begin with a space to say it");
            return;
        }
        self.editor.take();
        // A pasted text is no command, even if it begins like one.
        if text.starts_with('/') && !text.contains('\n') {
            self.command(&text);
        } else {
            self.say(&text);
        }
    }

    fn command(&mut self, line: &str) {
        let (name, words) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let words = words.trim();
        match (name, words) {
            ("/help", "") => self.overlay = Some(Overlay::Help(0)),
            ("/agents", _) | ("/agent", "") => self.open(Kind::Agents),
            ("/agent", id) => self.ask(Ask::Agent(id.to_owned()), "agents.list", json!({})),
            ("/sessions", _) | ("/session", "") => self.open(Kind::Sessions),
            ("/session", key) => self.go(|place| place.go(key)),
            ("/models" | "/model", "") => self.open(Kind::Models),
            ("/model", "default") => self.set_model("default"),
            ("/model", model) => {
                let ask = Ask::Model(self.place.session.clone(), model.to_owned());
                self.ask(ask, "models.list", json!({}));
            }
            ("/think", "") => self.open(Kind::Thinking),
            ("/think", level) => self.set_thinking(level),
            ("/new", "") => self.create(),
            ("/reset", "") => {
                let key = self.place.session.clone();
                self.ask(Ask::Reset(key.clone()), "sessions.reset", json!({"key": key}));
            }
            ("/abort", "") => self.abort(),
            ("/approvals", "") if self.approvals.len() == 0 => {
                self.note("nothing waits for a decision");
            }
            ("/approvals", "") => self.approvals.show(self.now),
            ("/deliver", "on" | "off") => {
                self.setup.deliver = words == "on";
                self.note(if self.setup.deliver {
                    "answers go to the session's channel as well"
                } else {
                    "answers stay here"
                });
            }
            ("/settings", "") => self.open(Kind::Settings),
            ("/exit" | "/quit", "") => self.do_it(Effect::Quit),
            _ => self.say(line),
        }
    }

    pub(super) fn abort(&mut self) {
        let mut params = json!({"sessionKey": self.place.session});
        if let Some(live) = self.transcript.live() {
            params["runId"] = json!(live.run_id);
        }
        self.ask(Ask::Abort, "chat.abort", params);
    }

    pub(super) fn create(&mut self) {
        self.ask(Ask::Create, "sessions.create", json!({"agentId": self.place.agent}));
    }

    pub(super) fn set_model(&mut self, model: &str) {
        let value = if model == "default" { json!(null) } else { json!(model) };
        self.patch("model", &value, format!("model: {model}"));
    }

    fn set_thinking(&mut self, level: &str) {
        let value = if level == "default" { json!(null) } else { json!(level) };
        self.patch("thinkingLevel", &value, format!("thinking: {level}"));
    }

    fn patch(&mut self, name: &str, value: &serde_json::Value, what: String) {
        let key = self.place.session.clone();
        let params = json!({"key": key, name: value});
        self.ask(Ask::Patch(key, what), "sessions.patch", params);
    }

    /// The user chose one.
    pub(super) fn choose(&mut self) {
        let Some(Overlay::Picker(picker)) = &self.overlay else { return };
        let kind = picker.kind;
        let Some(item) = picker.chosen().cloned() else { return };
        if kind == Kind::Settings {
            self.toggle(&item.id);
            self.fill_settings();
            return;
        }
        self.overlay = None;
        match kind {
            Kind::Sessions if item.id.is_empty() => self.create(),
            Kind::Sessions => self.go(|place| place.go(&item.id)),
            Kind::Agents => self.go(|place| place.go_to_agent(&item.id)),
            Kind::Models => self.set_model(&item.id),
            Kind::Thinking => self.set_thinking(&item.id),
            Kind::Settings => {}
        }
    }

    pub(super) fn toggle(&mut self, what: &str) {
        match what {
            "tools" => self.shows_tools = !self.shows_tools,
            "thoughts" => self.shows_thoughts = !self.shows_thoughts,
            "deliver" => self.setup.deliver = !self.setup.deliver,
            _ => {}
        }
    }

    pub(super) fn fill_settings(&mut self) {
        let item = |id: &str, title: &str, is_on: bool| Item {
            id: id.to_owned(),
            title: format!("{} {title}", if is_on { "☑" } else { "☐" }),
            ..Item::default()
        };
        let items = vec![
            item("tools", "show what tools give", self.shows_tools),
            item("thoughts", "show what the model thinks", self.shows_thoughts),
            item("deliver", "send answers to the session's channel as well", self.setup.deliver),
        ];
        self.fill(Kind::Settings, items);
    }

    pub(super) fn fill_thinking(&mut self) {
        let levels = self.row.thinking_levels.iter().map(String::as_str);
        let items = std::iter::once("default").chain(levels).map(|level| Item {
            id: level.to_owned(),
            title: level.to_owned(),
            detail: if level == "default" {
                "what the configuration says".to_owned()
            } else {
                String::new()
            },
            is_current: level == self.row.thinking,
        });
        let items = items.collect();
        self.fill(Kind::Thinking, items);
    }

    /// Commands that begin with what is typed: name, what may follow, what it does.
    pub fn completions(&self) -> Vec<(&str, &str, &str)> {
        let typed = self.editor.text();
        if !typed.starts_with('/') || typed.contains(char::is_whitespace) {
            return Vec::new();
        }
        let own = COMMANDS.iter().copied();
        let is_own = |name: &str| COMMANDS.iter().any(|(own, ..)| *own == name);
        let of_gateway = self.commands.iter().filter(|(name, _)| !is_own(name));
        own.chain(of_gateway.map(|(name, what)| (name.as_str(), "", what.as_str())))
            .filter(|(name, ..)| name.starts_with(typed))
            .collect()
    }

    /// Writes the rest of the command that is typed, as far as there is only one.
    pub(super) fn complete(&mut self) {
        let found = self.completions();
        let Some((first, ..)) = found.first() else { return };
        let shared =
            |name: &str| first.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        let length = found.iter().map(|(name, ..)| shared(name)).min().unwrap_or(0);
        let mut text = first.get(..length).unwrap_or(first).to_owned();
        if found.len() == 1 {
            text.push(' ');
        }
        if text.len() > self.editor.text().len() {
            self.editor.set(&text);
        }
    }
}
