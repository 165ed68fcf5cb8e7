use std::path::Path;

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
    // Where nothing is written, whatever the Bot API gives is taken.
    assert_eq!(telegram(json!({"botToken": "1:a"})).unwrap().media_max_mb, 20);
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
        (
            json!({"secret": long, "path": "/"}),
            "path is a path that the gateway has for something else",
        ),
        (
            json!({"secret": long, "path": "/metrics"}),
            "path is a path that the gateway has for something else",
        ),
        (
            json!({"secret": long, "path": "/clawgate/in"}),
            "path is a path that the gateway has for something else",
        ),
    ] {
        assert_eq!(webhook(&written).way.unwrap_err(), why);
    }
    for path in ["/api/in", "/v1/tg", "/tools/in", "/sessions/x/in", "/ready/tg", "/clawgates"] {
        assert!(webhook(&json!({"secret": long, "path": path})).way.is_ok(), "{path}");
    }
    let good = webhook(&json!({"secret": long, "url": "http://127.0.0.1:1/in/"}));
    assert_eq!(good.inbound_path(), Some("/webhooks/default"));
    assert!(!format!("{good:?}").contains(long));
}

#[test]
fn what_telegram_does_not_call_is_told_and_no_bot_that_asks_is_kept_from_it() {
    let telegram = |more: Value| {
        let mut written = json!({"botToken": "1:a"});
        for (name, value) in more.as_object().unwrap() {
            written[name] = value.clone();
        }
        let all = settings(&json!({"channels": {"telegram": written}})).unwrap();
        all.accounts.into_iter().next().unwrap()
    };
    let url = "https://claw.example/x";
    let rule = "webhookSecret must have 1 to 256 of A-Z, a-z, 0-9, _ and -";
    let own = "http://127.0.0.1:8081";
    for (written, why) in [
        (json!({"botToken": ""}), "botToken is empty"),
        (json!({"webhookUrl": url}), "webhookUrl needs webhookSecret"),
        (json!({"webhookUrl": url, "webhookSecret": "of two words"}), rule),
        (json!({"webhookUrl": url, "webhookSecret": ""}), rule),
        (json!({"webhookUrl": url, "webhookSecret": "x".repeat(257)}), rule),
        (
            json!({"webhookUrl": "http://claw.example/x", "webhookSecret": "a_B-1"}),
            "webhookUrl must be an https address",
        ),
        (
            json!({"webhookUrl": url, "webhookSecret": "a_B-1", "webhookPath": "/v1/responses"}),
            "webhookPath is a path that the gateway has for something else",
        ),
    ] {
        assert_eq!(telegram(written).way.unwrap_err(), why);
    }
    for written in [
        json!({"webhookUrl": url, "webhookSecret": "x".repeat(256)}),
        json!({"webhookUrl": own, "webhookSecret": "a_B-1", "apiRoot": own}),
        json!({"webhookUrl": url, "webhookSecret": {"source": "env", "id": "HOOK"}}),
        json!({"webhookSecret": "of two words", "webhookPath": "/"}),
    ] {
        assert!(telegram(written.clone()).way.is_ok(), "{written}");
    }
}

#[test]
fn of_accounts_that_are_in_each_others_way_the_later_one_is_unusable() {
    let long = "0123456789abcdef";
    let token = json!({"source": "env", "id": "BOT"});
    let read = settings(&json!({"channels": {
        "telegram": {"accounts": {
            "off": {"botToken": "1:a", "enabled": false},
            "a": {"botToken": "1:a", "webhookUrl": "https://x.test/", "webhookSecret": "s",
                "webhookPath": "/in"},
            "b": {"botToken": " 1:a "},
            "c": {"botToken": token},
            "d": {"botToken": token},
            "e": {"botToken": "2:b", "webhookPath": "/in"},
        }},
        "webhook": {"secret": long, "path": "/in", "accounts": {"b": {"secret": long}}},
    }}))
    .unwrap();
    let told: Vec<_> = read.unusable().into_iter().map(|it| (it.path, it.message)).collect();
    let expected = [
        ("channels.telegram.accounts.b", "botToken is that of account a of telegram as well"),
        ("channels.telegram.accounts.d", "botToken is that of account c of telegram as well"),
        ("channels.webhook", "/in is the path of account a of telegram as well"),
    ];
    assert_eq!(told, expected.map(|(path, why)| (path.to_owned(), why.to_owned())));
}

#[test]
fn of_accounts_that_are_in_each_others_way_the_default_one_is_used() {
    let long = "0123456789abcdef";
    let read = settings(&json!({"channels": {
        "telegram": {"botToken": "1:a", "defaultAccount": "main",
            "accounts": {"main": {"botToken": "1:a"}}},
        "webhook": {"defaultAccount": "b", "accounts": {
            "a": {"secret": long, "path": "/in"}, "b": {"secret": long, "path": "/in"}}},
    }}))
    .unwrap();
    let told: Vec<_> = read.unusable().into_iter().map(|it| (it.path, it.message)).collect();
    let expected = [
        ("channels.telegram", "botToken is that of account main of telegram as well"),
        ("channels.webhook.accounts.a", "/in is the path of account b of webhook as well"),
    ];
    assert_eq!(told, expected.map(|(path, why)| (path.to_owned(), why.to_owned())));
    assert!(ChannelKind::ALL.iter().all(|kind| read.account(*kind, None).unwrap().way.is_ok()));
}

#[test]
fn what_is_wrong_with_a_default_account_is_told_where_it_stands() {
    for (written, place) in [
        (json!({"path": "/in"}), "channels.webhook"),
        (json!({"accounts": {"default": {}}}), "channels.webhook.accounts.default"),
    ] {
        let read = settings(&json!({"channels": {"webhook": written}})).unwrap();
        let told: Vec<_> = read.unusable().into_iter().map(|it| it.path).collect();
        assert_eq!(told, [place]);
    }
}

#[test]
fn wrong_values_name_their_key() {
    for (written, part) in [
        (json!({"channels": {"webhook": {"dmPolicy": "maybe"}}}), "channels.webhook"),
        (json!({"channels": {"webhook": {"dmPolicy": "open"}}}), "channels.webhook.allowFrom"),
        (
            json!({"channels": {"webhook": {"textChunkLimit": 0}}}),
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
fn an_owner_is_named_whole_or_by_an_id_of_telegram_and_nobody_is_one_by_a_star() {
    let read =
        settings(&json!({"commands": {"ownerAllowFrom": ["telegram:7", "*", "8", 77]}})).unwrap();
    for id in ["7", "8", "77"] {
        assert!(read.is_owner(ChannelKind::Telegram, id), "{id}");
    }
    for (kind, id) in [
        (ChannelKind::Webhook, "7"),
        (ChannelKind::Webhook, "8"),
        (ChannelKind::Telegram, "9"),
        (ChannelKind::Telegram, "*"),
        (ChannelKind::Telegram, ""),
    ] {
        assert!(!read.is_owner(kind, id), "{kind:?} {id}");
    }
}
