//! How updates come: we ask for them, or Telegram brings them.
//!
//! Promises: the API hears that we have updates only after all that came at a time were
//! passed on and that was written down; so none is lost over a crash, and those that come
//! again are known by their messages. What is said in a chat is passed on in its order, and
//! waits for no other chat, though that has come before it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;

use super::update::{self, Bot};
use super::{ApiError, Telegram};
use crate::channels::channel::Ear;
use crate::channels::inbound::Inbound;
use crate::support::{BoxFuture, Few, json};

/// How long the API may wait for something to tell, in seconds.
const WAIT_SECONDS: u64 = 25;
/// How long such a call may take in all.
const CALL: Duration = Duration::from_secs(45);
/// Most updates at a time, the most that the API gives.
const BATCH: u64 = 100;
/// What is kept: the bot, and the first of its updates that we have not.
const OFFSET: &str = "offset";
/// How often an update is tried that cannot be passed on: then it is given up,
/// or nothing would ever come after it …
const TRIES: u32 = 8;
/// … and how long it waits the first time.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the pictures of an album take that were sent together, as in the
/// original.
const ALBUM_PAUSE: Duration = Duration::from_millis(500);
/// The API is left alone for so long at least: it may say 0 each time.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// How many chats are passed on at a time: files of each may be in memory.
const CHATS: usize = 8;
/// While that takes long, who has come meanwhile is looked for so often.
const LOOK: Duration = Duration::from_secs(2);
/// Most commands of a bot.
const COMMANDS_MAX: usize = 100;
/// Where they are shown. Those of an OpenClaw for groups would come before the usual ones.
const SCOPES: [&str; 2] = ["default", "all_group_chats"];
/// The updates that we want.
const WANTED: [&str; 2] = ["message", "callback_query"];

/// Asks for updates until that fails; answers why.
pub(super) async fn poll(bot: Arc<Telegram>, ear: Arc<dyn Ear>) -> String {
    match ask(&bot, &*ear).await {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

async fn ask(telegram: &Telegram, ear: &dyn Ear) -> Result<Infallible, String> {
    // While Telegram brings updates, it gives none to those who ask.
    let params = json!({"drop_pending_updates": false});
    let bot = begin(telegram, ear, "deleteWebhook", &params).await?;
    let showing = async {
        show_commands(telegram, ear).await;
        std::future::pending::<Result<Infallible, String>>().await
    };
    tokio::select! {
        ended = listen(telegram, ear, &bot) => ended,
        ended = showing => ended,
    }
}

async fn listen(telegram: &Telegram, ear: &dyn Ear, bot: &Bot) -> Result<Infallible, String> {
    let noted = ear.recall(OFFSET).await?;
    let mut offset = noted.and_then(|note| known_offset(&note, bot));
    loop {
        let updates = match next_updates(telegram, ear, offset, WAIT_SECONDS).await {
            Ok(updates) => updates,
            Err(error) => {
                wait_as_told(&error, ear).await?;
                continue;
            }
        };
        if updates.is_empty() {
            continue;
        }
        let mut passing = Passing::new(bot, ear);
        passing.add(updates).await?;
        pass_all_on(telegram, ear, &mut passing, offset).await?;
        // Also when it is lower: after a week without updates, and at another server, they
        // are numbered anew.
        let next = passing.last.saturating_add(1);
        ear.keep(OFFSET, format!("{} {next}", bot.id)).await?;
        offset = Some(next);
    }
}

/// Shows people which commands there are, where they begin with a slash. What is said goes on,
/// whatever becomes of that.
async fn show_commands(telegram: &Telegram, ear: &dyn Ear) {
    let commands = ear.commands().into_iter().take(COMMANDS_MAX);
    let commands: Vec<_> =
        commands.map(|(name, about)| json!({"command": name, "description": about})).collect();
    if commands.is_empty() || telegram.shows_commands.load(Ordering::Relaxed) {
        return;
    }
    for scope in SCOPES {
        let params = json!({"commands": commands, "scope": {"type": scope}});
        if let Err(error) = telegram.api.call_aside("setMyCommands", &params).await {
            tracing::warn!(%error, "the menu of commands stays as it was");
            return;
        }
    }
    telegram.shows_commands.store(true, Ordering::Relaxed);
}

/// Asks who we are, and says how updates are to come; again when the API says that it is to
/// be asked later.
async fn begin(
    telegram: &Telegram,
    ear: &dyn Ear,
    method: &str,
    params: &Value,
) -> Result<Bot, String> {
    loop {
        let begun = async {
            let bot = telegram.introduce().await?;
            telegram.api.call(method, params).await?;
            Ok::<_, ApiError>(bot)
        };
        match begun.await {
            Ok(bot) => {
                ear.is_well();
                return Ok(bot);
            }
            Err(error) => wait_as_told(&error, ear).await?,
        }
    }
}

/// Waits as long as the API wants to be left alone; an error where it does not say so.
async fn wait_as_told(error: &ApiError, ear: &dyn Ear) -> Result<(), String> {
    let wait = error.retry_after().ok_or_else(|| error.to_string())?.max(WAIT_MIN);
    ear.is_put_off(&error.to_string());
    tracing::warn!(%error, ?wait, "the Bot API wants to be asked later");
    tokio::time::sleep(wait).await;
    Ok(())
}

/// The updates from this one on, as the API gives them; none when it has waited in vain.
async fn next_updates(
    telegram: &Telegram,
    ear: &dyn Ear,
    offset: Option<i64>,
    seconds: u64,
) -> Result<Vec<Value>, ApiError> {
    let mut params = json!({"timeout": seconds, "limit": BATCH, "allowed_updates": WANTED});
    if let Some(offset) = offset {
        params["offset"] = json!(offset);
    }
    let mut updates = telegram.api.call_for("getUpdates", &params, CALL).await?;
    ear.is_well();
    if ends_in_album(&updates) {
        // The rest of it is on its way. What is not confirmed comes again.
        tokio::time::sleep(ALBUM_PAUSE).await;
        params["timeout"] = json!(0);
        updates = telegram.api.call_for("getUpdates", &params, CALL).await?;
    }
    Ok(updates.as_array().cloned().unwrap_or_default())
}

/// Passes on what is there, and what comes meanwhile: the files of one chat may take a minute. As
/// nothing of it is confirmed before all is passed on, the API gives it again with what has come,
/// and no more than at a time.
async fn pass_all_on(
    telegram: &Telegram,
    ear: &dyn Ear,
    passing: &mut Passing<'_>,
    offset: Option<i64>,
) -> Result<(), String> {
    let mut wait = LOOK;
    loop {
        let mut look = std::pin::pin!(async move {
            tokio::time::sleep(wait).await;
            next_updates(telegram, ear, offset, 0).await
        });
        let looked = loop {
            tokio::select! {
                biased;
                is_left = passing.go_on() => {
                    if !is_left {
                        return Ok(());
                    }
                }
                looked = &mut look => break looked,
            }
        };
        wait = match looked {
            Ok(updates) => {
                passing.add(updates).await?;
                LOOK
            }
            Err(error) => {
                tracing::debug!(%error, "not known whether more has come meanwhile");
                error.retry_after().unwrap_or_default().max(LOOK)
            }
        };
    }
}

/// Updates that are passed on: those of a chat one after the other, chats side by side.
struct Passing<'a> {
    bot: &'a Bot,
    ear: &'a dyn Ear,
    /// The numbers of all that were taken up, …
    known: Vec<i64>,
    /// … and the last of them.
    last: i64,
    /// Those whose turn has not come, by chat.
    waiting: Few<Option<i64>, Vec<Value>>,
    /// The chats of the others …
    busy: Vec<Option<i64>>,
    /// … of which each tells which it was.
    under_way: FuturesUnordered<BoxFuture<'a, Option<i64>>>,
}

impl<'a> Passing<'a> {
    fn new(bot: &'a Bot, ear: &'a dyn Ear) -> Self {
        let (known, busy) = (Vec::new(), Vec::new());
        let (waiting, under_way) = (Few::new(), FuturesUnordered::new());
        Self { bot, ear, known, last: 0, waiting, busy, under_way }
    }

    /// Takes up those that are new.
    async fn add(&mut self, updates: Vec<Value>) -> Result<(), String> {
        let mut moves = Vec::new();
        for update in updates {
            let id = update["update_id"].as_i64();
            let id = id.ok_or("an update of the Bot API has no number")?;
            if self.known.contains(&id) {
                continue;
            }
            self.known.push(id);
            self.last = id;
            if update::is_move(&update) {
                moves.push(update);
            } else {
                self.waiting.or_default(chat_of(&update)).push(update);
            }
        }
        // First: they say which rules hold for the rest.
        let moves: Vec<_> = moves.iter().collect();
        pass_chat_on(&moves, self.bot, self.ear).await;
        Ok(())
    }

    /// Goes on until a chat is through; `false` when none was left. Safe to drop and call again.
    async fn go_on(&mut self) -> bool {
        while self.busy.len() < CHATS {
            let next = self.waiting.keys().find(|chat| !self.busy.contains(chat)).copied();
            let next = next.and_then(|chat| Some((chat, self.waiting.remove(&chat)?)));
            let Some((chat, updates)) = next else { break };
            self.busy.push(chat);
            let (bot, ear) = (self.bot, self.ear);
            self.under_way.push(Box::pin(async move {
                let updates: Vec<_> = updates.iter().collect();
                pass_chat_on(&updates, bot, ear).await;
                chat
            }));
        }
        let Some(through) = self.under_way.next().await else { return false };
        self.busy.retain(|chat| *chat != through);
        true
    }
}

async fn pass_chat_on(updates: &[&Value], bot: &Bot, ear: &dyn Ear) {
    for together in updates.chunk_by(|one, next| update::is_same_album(one, next)) {
        if let Some(inbound) = update::read_album(together, bot) {
            pass_on(inbound, ear).await;
        }
    }
}

fn chat_of(update: &Value) -> Option<i64> {
    update::message_of(update)["chat"]["id"].as_i64()
}

/// The first update that we have not, where that was learned with this bot: each
/// counts its own, and those before it would be lost. Without it Telegram gives
/// what it has not heard that we have.
fn known_offset(note: &str, bot: &Bot) -> Option<i64> {
    let (id, next) = note.split_once(' ')?;
    if id == bot.id.to_string() { next.parse().ok() } else { None }
}

/// Whether the last update of a chat is a part of an album, so that more of it may come.
fn ends_in_album(updates: &Value) -> bool {
    let updates = updates.as_array().into_iter().flatten();
    let last: Few<_, _> = updates.map(|update| (chat_of(update), update)).collect();
    last.values().any(|update| !update["message"]["media_group_id"].is_null())
}

async fn pass_on(inbound: Inbound, ear: &dyn Ear) {
    let (chat, id) = (inbound.chat.id.clone(), inbound.message_id.clone());
    let mut pause = PAUSE;
    ear.notice(&inbound);
    for tried in 1..=TRIES {
        match ear.hear(inbound.clone()).await {
            Ok(_) => return,
            Err(why) if tried == TRIES => {
                tracing::error!(chat, id, why, "message given up");
                return ear.give_up(inbound, why).await;
            }
            Err(why) => {
                tracing::warn!(chat, id, why, "message not taken; trying again");
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2);
            }
        }
    }
}

/// Tells Telegram where to bring updates. Ends only when that fails.
pub(super) async fn register(bot: Arc<Telegram>, ear: Arc<dyn Ear>) -> String {
    let Some((url, secret)) = &bot.webhook else { return "webhookUrl is not set".into() };
    let params = json!({"url": url, "secret_token": secret.expose(), "allowed_updates": WANTED});
    match begin(&bot, &*ear, "setWebhook", &params).await {
        Ok(_) => {
            show_commands(&bot, &*ear).await;
            std::future::pending().await
        }
        Err(why) => why,
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::channels::inbound::Received;
    use crate::support::BoxFuture;

    /// Hears all but what is `bad`, and notes it.
    #[derive(Default)]
    struct Picky(Mutex<Vec<String>>);

    impl Ear for Picky {
        fn notice(&self, inbound: &Inbound) {
            if inbound.text == "bad" {
                self.0.lock().push("bad is there".into());
            }
        }

        fn hear(&self, inbound: Inbound) -> BoxFuture<'_, Result<Received, String>> {
            let heard = if inbound.text == "bad" {
                Err("it is bad".to_owned())
            } else {
                self.0.lock().push(inbound.text);
                Ok(Received::Pairing)
            };
            Box::pin(std::future::ready(heard))
        }

        fn give_up(&self, inbound: Inbound, why: String) -> BoxFuture<'_, ()> {
            self.0.lock().push(format!("{}: {why}", inbound.text));
            Box::pin(std::future::ready(()))
        }

        fn recall<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
            Box::pin(std::future::ready(Ok(None)))
        }

        fn keep(&self, _name: &str, _value: String) -> BoxFuture<'_, Result<(), String>> {
            Box::pin(std::future::ready(Ok(())))
        }

        fn is_well(&self) {}

        fn is_put_off(&self, why: &str) {
            self.0.lock().push(why.to_owned());
        }
    }

    fn said(id: i64, chat: i64, text: &str, album: Option<&str>) -> Value {
        json!({"update_id": id, "message": {"message_id": id, "from": {"id": chat},
            "chat": {"id": chat, "type": "private"}, "text": text, "media_group_id": album}})
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_not_taken_holds_up_its_own_chat_only() {
        let bot = Bot { id: 99, username: "claw_bot".into() };
        let updates = [
            said(1, 7, "bad", None),
            said(2, 8, "one", None),
            said(3, 7, "after it", None),
            said(4, 8, "two", None),
        ];
        let ear = Picky::default();
        let mut passing = Passing::new(&bot, &ear);
        passing.add(updates.to_vec()).await.unwrap();
        while passing.go_on().await {}
        let heard = ear.0.lock().clone();
        assert_eq!(heard, ["bad is there", "one", "two", "bad: it is bad", "after it"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_while_a_chat_is_held_up_waits_for_that_chat_only_and_is_taken_up_once() {
        let bot = Bot { id: 99, username: "claw_bot".into() };
        let ear = Picky::default();
        let mut passing = Passing::new(&bot, &ear);
        let mut updates = vec![said(1, 7, "bad", None)];
        passing.add(updates.clone()).await.unwrap();
        let held = tokio::time::timeout(Duration::from_secs(1), passing.go_on()).await;
        assert!(held.is_err(), "it is tried for longer");
        // The API gives what is not confirmed again.
        updates.extend([said(2, 7, "after it", None), said(3, 8, "one", None)]);
        for _ in 0..2 {
            passing.add(updates.clone()).await.unwrap();
        }
        while passing.go_on().await {}
        let heard = ear.0.lock().clone();
        assert_eq!(heard, ["bad is there", "one", "bad: it is bad", "after it"]);
        assert_eq!(passing.last, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_wants_to_be_asked_later_is_told_of_and_never_asked_at_once() {
        let (ear, begun) = (Picky::default(), tokio::time::Instant::now());
        let later = |wait| ApiError::Refused {
            code: 429,
            description: "later".into(),
            retry_after: wait,
            moved_to: None,
        };
        for seconds in [0, 5] {
            let error = later(Some(Duration::from_secs(seconds)));
            wait_as_told(&error, &ear).await.unwrap();
        }
        assert_eq!(begun.elapsed().as_secs(), 6);
        let why = "the Bot API answered 429: later";
        assert_eq!(*ear.0.lock(), [why, why]);
        assert_eq!(wait_as_told(&later(None), &ear).await.unwrap_err(), why);
    }

    #[tokio::test]
    async fn an_album_is_whole_though_others_speak_meanwhile() {
        let (album, ear) = (Some("a"), Picky::default());
        let bot = Bot { id: 99, username: "claw_bot".into() };
        let updates = [said(1, 7, "x", album), said(2, 8, "hi", None), said(3, 7, "y", album)];
        assert!(ends_in_album(&Value::from(updates.to_vec())));
        let mut passing = Passing::new(&bot, &ear);
        passing.add(updates.to_vec()).await.unwrap();
        while passing.go_on().await {}
        assert_eq!(*ear.0.lock(), ["x\ny", "hi"]);
        assert!(!ends_in_album(&json!([said(1, 7, "", album), said(2, 7, "hi", None)])));
    }

    #[test]
    fn an_offset_counts_for_the_bot_that_it_was_learned_with() {
        let bot = Bot { id: 99, username: "claw_bot".into() };
        for (note, offset) in [
            ("99 1001", Some(1001)),
            ("98 1001", None),
            ("9 91001", None),
            // An earlier version kept no bot.
            ("1001", None),
            ("99 x", None),
        ] {
            assert_eq!(known_offset(note, &bot), offset, "{note}");
        }
    }
}
