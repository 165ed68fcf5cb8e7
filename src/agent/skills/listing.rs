//! The list of skills in a prompt: the model reads a skill's file when it
//! needs it.

use std::fmt::Write as _;

use super::check::Verdict;

/// Lists the skills that the model is told of; empty when there are none: with their descriptions where
/// these fit, without them else, and at last only the first ones.
pub fn list(verdicts: &[Verdict], max_skills: usize, max_chars: usize) -> String {
    let visible: Vec<_> = verdicts.iter().filter(|verdict| verdict.is_model_visible()).collect();
    if visible.is_empty() {
        return String::new();
    }
    let shown = visible.get(..max_skills).unwrap_or(&visible);
    let full: Vec<_> = shown.iter().map(|verdict| block(verdict, true)).collect();
    let length = |blocks: &[String]| blocks.iter().map(|block| chars(block)).sum::<usize>();
    let blocks = if length(&full) <= max_chars {
        full
    } else {
        let mut room = max_chars;
        let short = shown.iter().map(|verdict| block(verdict, false));
        short
            .take_while(|block| {
                let fits = chars(block) <= room;
                room = room.saturating_sub(chars(block));
                fits
            })
            .collect()
    };
    let left_out = visible.len() - blocks.len();
    let mut text = format!("<available_skills>\n{}</available_skills>", blocks.concat());
    if left_out > 0 {
        let _ = write!(text, "\n({left_out} more skills have no room here.)");
    }
    text
}

fn block(verdict: &Verdict, is_full: bool) -> String {
    let head = &verdict.skill.head;
    let file = verdict.skill.file();
    let description = if is_full {
        format!("    <description>{}</description>\n", escaped(&head.description))
    } else {
        String::new()
    };
    format!(
        "  <skill>\n    <name>{}</name>\n{description}    <location>{}</location>\n  </skill>\n",
        escaped(&head.name),
        escaped(&file.to_string_lossy()),
    )
}

/// A skill's words must not look like the list around them.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::agent::skills::front::{Head, Requires};
    use crate::agent::skills::scan::{Skill, SkillSource};

    fn verdict(name: &str, description: &str, is_model_invocable: bool) -> Verdict {
        let head = Head {
            name: name.into(),
            description: description.into(),
            is_model_invocable,
            ..Head::default()
        };
        Verdict {
            skill: Skill {
                head: Arc::new(head),
                source: SkillSource::Managed,
                base_dir: format!("/s/{name}").into(),
            },
            is_disabled: false,
            is_blocked_by_allowlist: false,
            is_blocked_by_agent: false,
            missing: Requires::default(),
        }
    }

    #[test]
    fn the_list_names_each_skill_and_where_its_file_is() {
        let verdicts = [verdict("a", "x < y & z", true), verdict("hidden", "h", false)];
        let listing = list(&verdicts, 10, 1_000);
        assert_eq!(
            listing,
            "<available_skills>\n  <skill>\n    <name>a</name>\n    \
             <description>x &lt; y &amp; z</description>\n    <location>/s/a/SKILL.md</location>\n  \
             </skill>\n</available_skills>"
        );
        assert_eq!(list(&verdicts[1..], 10, 1_000), "");
    }

    #[test]
    fn without_room_descriptions_go_first_and_then_skills() {
        let verdicts: Vec<_> =
            ["a", "b", "c"].iter().map(|name| verdict(name, &"d".repeat(100), true)).collect();
        let room = chars(&block(&verdicts[0], false));
        let names = |listing: &str| listing.matches("<name>").count();
        let short = list(&verdicts, 10, 3 * room);
        assert!(!short.contains("<description>") && names(&short) == 3, "{short}");
        let shorter = list(&verdicts, 10, 2 * room);
        assert_eq!(names(&shorter), 2);
        assert!(shorter.ends_with("(1 more skills have no room here.)"), "{shorter}");
        assert!(list(&verdicts, 1, 10_000).ends_with("(2 more skills have no room here.)"));
    }
}
