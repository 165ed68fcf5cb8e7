use std::path::Path;

use serde_json::Value;

use crate::support::json;

use super::*;

fn settings(written: &Value) -> Result<ChannelsSettings, ConfigError> {
    read(&Node::root(written, Path::new("f")))
}

fn webhook(written: &Value) -> ChannelAccount {
    let all = settings(&json!({"channels": {"webhook": written}})).unwrap();
    all.accounts.into_iter().next().unwrap()
}

#[test]
fn nothing_is_configured_by_default_and_unknown_channels_are_left_alone() {
    for written in [json!({}), json!({"channels": {"discord": {"token": 5}, "defaults": {}}})] {
        let read = settings(&written).unwrap();
        assert!(read.accounts.is_empty() && read.kinds().next().is_none());
    }
}

#[test]
fn accounts_share_what_stands_beside_them_but_no_credentials() {
    let read = settings(&json!({"channels": {"telegram": {
        "botToken": "1:a", "allowFrom": [7], "mediaMaxMb": 9,
        "accounts": {"work": {"botToken": "2:b", "allowFrom": ["tg:8"]}, "bare": {}},
    }}}))
    .unwrap();
    let seen: Vec<_> = read
        .accounts
        .iter()
        .map(|it| (it.id.as_str(), it.is_default, it.access.allow_from[0].as_str(), it.way.is_ok()))
        .collect();
    assert_eq!(
        seen,
        [("default", true, "7", true), ("work", false, "8", true), ("bare", false, "7", false)]
    );
    assert!(read.accounts.iter().all(|it| it.media_max_mb == 9));
    let chosen = read.account(ChannelKind::Telegram, None).map(|it| it.id.as_str());
    assert_eq!(chosen, Some("default"));
    assert!(read.account(ChannelKind::Telegram, Some("gone")).is_none());
}

#[test]
fn what_the_original_takes_refuses_no_file() {
    let telegram = |written: Value| {
        let all = settings(&json!({"channels": {"telegram": written}}));
        all.map(|all| all.accounts.into_iter().next().unwrap())
    };
    let batched = telegram(json!({"botToken": "1:a", "replyToMode": "batched"})).unwrap();
    assert_eq!(batched.reply_to, ReplyToMode::First);
    for (written, megabytes) in [(0.5, 1), (4.0, 4), (4.2, 5), (50.0, 50), (2048.0, 50)] {
        let account = telegram(json!({"botToken": "1:a", "mediaMaxMb": written})).unwrap();
        assert_eq!(account.media_max_mb, megabytes, "{written}");
    }
    let error = telegram(json!({"mediaMaxMb": -1})).unwrap_err().to_string();
    assert!(error.starts_with("channels.telegram.mediaMaxMb: must be a positive"), "{error}");
}

#[test]
fn an_account_says_why_it_cannot_be_used() {
    let long = "0123456789abcdef";
    for (written, why) in [
        (json!({}), "secret is missing"),
        (json!({"secret": "short"}), "secret must have at least 16 characters"),
        (json!({"secret": long, "url": "ftp://x/"}), "url must be an http or https address"),
        (json!({"secret": long, "path": "hook"}), "path must be a path that begins with /"),
    ] {
        assert_eq!(webhook(&written).way.unwrap_err(), why);
    }
    let good = webhook(&json!({"secret": long, "url": "http://127.0.0.1:1/in/"}));
    assert_eq!(good.inbound_path(), Some("/webhooks/default"));
    assert!(!format!("{good:?}").contains(long));
}

#[test]
fn wrong_values_name_their_key() {
    for (written, part) in [
        (json!({"channels": {"webhook": {"dmPolicy": "maybe"}}}), "channels.webhook"),
        (json!({"channels": {"webhook": {"dmPolicy": "open"}}}), "channels.webhook.allowFrom"),
        (
            json!({"channels": {"webhook": {"textChunkLimit": 1}}}),
            "channels.webhook.textChunkLimit",
        ),
        (json!({"channels": {"webhook": 5}}), "channels.webhook"),
        (json!({"channels": {"webhook": {"accounts": {"a:b": {}}}}}), "accounts.a:b"),
        (json!({"bindings": [{"match": {"channel": "x"}}]}), "bindings[0].agentId"),
        (json!({"bindings": [{"agentId": "x"}]}), "bindings[0].match.channel"),
    ] {
        let error = settings(&written).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_group_has_its_own_rules_before_those_of_all() {
    let read =
        webhook(&json!({"groups": {"*": {"requireMention": false}, "g": {"enabled": false}}}));
    let own = read.access.group("g").unwrap();
    assert_eq!((own.enabled, own.require_mention), (Some(false), Some(false)));
    assert_eq!(read.access.group("other").unwrap().require_mention, Some(false));
    let named = webhook(&json!({"groups": {"g": {}}}));
    assert_eq!(named.access.group("other"), None);
    assert_eq!(webhook(&json!({})).access.group("any"), Some(GroupSettings::default()));
}

#[test]
fn an_owner_is_named_whole_and_nobody_is_one_by_a_star() {
    let read =
        settings(&json!({"commands": {"ownerAllowFrom": ["telegram:7", "*", "8"]}})).unwrap();
    assert!(read.is_owner(ChannelKind::Telegram, "7"));
    for (kind, id) in [
        (ChannelKind::Webhook, "7"),
        (ChannelKind::Telegram, "8"),
        (ChannelKind::Telegram, "77"),
        (ChannelKind::Telegram, ""),
    ] {
        assert!(!read.is_owner(kind, id), "{kind:?} {id}");
    }
}
