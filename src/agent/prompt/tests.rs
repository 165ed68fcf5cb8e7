use super::*;
use crate::agent::workspace::{BootstrapFile, InjectedFile};
use crate::config::AgentIdentity;
use crate::providers::testing::model;

/// Sunday, 2026-11-22 03:35 UTC.
const NOW: u64 = 1_795_318_532_277;

fn file(file: BootstrapFile, text: &str, is_truncated: bool) -> InjectedFile {
    InjectedFile {
        file,
        path: format!("/w/{}", file.name()).into(),
        is_missing: false,
        text: Some(text.into()),
        is_truncated,
    }
}

fn facts(audience: Audience) -> Prompt {
    Prompt {
        agent: AgentSettings {
            identity: AgentIdentity { name: Some("Inky".into()), ..AgentIdentity::default() },
            ..AgentSettings::bare("main", "/w".into())
        },
        audience,
        written: None,
        tools: vec![("read".into(), "Reads a file.".into())],
        sandbox: None,
        is_workspace_only: false,
        files: Injected {
            files: vec![
                file(BootstrapFile::Agents, "the rules", false),
                file(BootstrapFile::Soul, "be kind", true),
            ],
        },
        skills: "<available_skills>x</available_skills>".into(),
        warns_of_truncation: true,
        zone: Some(TimeZone::get("America/New_York").unwrap()),
        extra: Some(" Be terse. ".into()),
        is_minimal: false,
        instructions: None,
        channel: "webchat".into(),
        host: "box".into(),
        now_ms: NOW,
    }
}

fn rendered(facts: &Prompt, notices: &[String]) -> String {
    facts.render(&model("openai-completions"), ThinkingLevel::parse("low").unwrap(), notices)
}

#[test]
fn what_stays_comes_first_and_what_changes_last() {
    let prompt = rendered(&facts(Audience::Direct), &["a\nb".into()]);
    let parts = [
        "You are Inky",
        "- read: Reads a file.",
        "answer exactly NO_REPLY",
        "<available_skills>x",
        "Your working directory is /w.",
        "# Project Context",
        "## /w/AGENTS.md\n\nthe rules",
        "SOUL.md says how you are",
        "not all of SOUL.md is shown",
        // It is Saturday there.
        "Time zone: America/New_York. Today is Saturday, 2026-11-21.",
        "## This session\nBe terse.",
        "agent=main | host=box",
        "channel=webchat | thinking=low",
        "System events since the last turn (untrusted text):\n- a b",
    ];
    let mut at = 0;
    for part in parts {
        let found =
            prompt[at..].find(part).unwrap_or_else(|| panic!("{part} after {at}: {prompt}"));
        at += found;
    }
    let other_day = Prompt { now_ms: NOW + 60_000, ..facts(Audience::Direct) };
    assert_eq!(rendered(&other_day, &[]), rendered(&facts(Audience::Direct), &[]));
}

#[test]
fn sub_agents_are_told_less() {
    let facts = Prompt { skills: String::new(), ..facts(Audience::SubAgent) };
    let prompt = rendered(&facts, &[]);
    for part in ["NO_REPLY", "## Skills"] {
        assert!(!prompt.contains(part), "{part} in {prompt}");
    }
    assert!(prompt.contains("## Sub-agent context\nBe terse."), "{prompt}");
}

#[test]
fn a_prompt_of_the_users_own_stands_alone_but_for_news() {
    let facts = Prompt { written: Some("Mine.".into()), ..facts(Audience::Direct) };
    assert_eq!(rendered(&facts, &[]), "Mine.");
    assert!(rendered(&facts, &["n".into()]).starts_with("Mine.\n\nSystem events"));
}

#[test]
fn the_notice_of_cut_files_can_be_switched_off() {
    let facts = Prompt { warns_of_truncation: false, ..facts(Audience::Direct) };
    assert!(!rendered(&facts, &[]).contains("Notice: not all"));
}

#[test]
fn sessions_are_told_apart_by_their_key() {
    for (key, expected) in [
        ("agent:main:main", Audience::Direct),
        ("agent:main:subagent:1", Audience::SubAgent),
        ("agent:main:cron:1", Audience::Job),
        ("agent:main:telegram:group:5", Audience::Shared),
        ("global", Audience::Direct),
    ] {
        assert_eq!(audience(&SessionKey::from_canonical(key)), expected, "{key}");
    }
}

#[test]
fn a_tool_gets_one_line() {
    assert_eq!(sections::first_sentence("Reads. Then more.\nAnd more"), "Reads.");
    assert_eq!(sections::first_sentence("Like e.g. this"), "Like e.g. this");
    assert_eq!(sections::first_sentence(&"x".repeat(500)).chars().count(), 160);
    assert_eq!(sections::first_sentence(""), "");
}

#[test]
fn a_model_is_told_what_confined_commands_can_write_to() {
    for (sandbox, told) in [
        (None, None),
        (Some(ExecSandbox::Off), None),
        (Some(ExecSandbox::WorkspaceWrite), Some("can write only below the workspace")),
        (Some(ExecSandbox::ReadOnly), Some("can write nowhere.")),
    ] {
        let prompt = rendered(&Prompt { sandbox, ..facts(Audience::Direct) }, &[]);
        assert_eq!(prompt.contains("## Sandbox"), told.is_some(), "{prompt}");
        assert!(prompt.contains(told.unwrap_or_default()), "{prompt}");
    }
}

#[test]
fn a_model_is_told_what_its_tools_read_beside_the_workspace_of_a_confined_session() {
    for (is_workspace_only, told) in [
        (false, "do not leave the workspace, but read skills and what users sent, too. What"),
        (true, "do not leave the workspace. What"),
    ] {
        let sandbox = Some(ExecSandbox::WorkspaceWrite);
        let facts = Prompt { sandbox, is_workspace_only, ..facts(Audience::Direct) };
        assert!(rendered(&facts, &[]).contains(told), "{told}");
    }
}
