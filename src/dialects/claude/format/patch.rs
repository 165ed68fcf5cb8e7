//! A diff of ours as the hunks of Claude Code.

use serde_json::Value;

use crate::support::json;

/// What changed around one place.
#[derive(Default)]
struct Hunk {
    old: (usize, usize),
    new: (usize, usize),
    lines: Vec<String>,
}

/// The hunks of a diff that `edit` tells of: lines `+12 text`, `-12 text` and
/// ` 12 text` (numbers of old lines, but for added ones), ` ...` between hunks.
pub(super) fn hunks(diff: &str) -> Value {
    let mut hunks = Vec::new();
    let mut hunk = Hunk::default();
    // How far numbers of the new text are ahead of those of the old one.
    let (mut added, mut removed) = (0_usize, 0_usize);
    for line in diff.lines() {
        let Some((mark, number, text)) = parts(line) else {
            hunks.extend(finish(&mut hunk));
            continue;
        };
        let (old, new) = match mark {
            '+' => (number.saturating_add(removed).saturating_sub(added), number),
            _ => (number, number.saturating_add(added).saturating_sub(removed)),
        };
        if hunk.lines.is_empty() {
            (hunk.old.0, hunk.new.0) = (old, new);
        }
        hunk.old.1 += usize::from(mark != '+');
        hunk.new.1 += usize::from(mark != '-');
        added += usize::from(mark == '+');
        removed += usize::from(mark == '-');
        hunk.lines.push(format!("{mark}{text}"));
    }
    hunks.extend(finish(&mut hunk));
    hunks.into()
}

/// Mark, number and text of a line; `None` for what stands between hunks.
fn parts(line: &str) -> Option<(char, usize, &str)> {
    let mark = line.chars().next().filter(|mark| matches!(mark, '+' | '-' | ' '))?;
    let rest = line.get(1..)?.trim_start_matches(' ');
    let (number, text) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((mark, number.parse().ok()?, text))
}

fn finish(hunk: &mut Hunk) -> Option<Value> {
    let hunk = std::mem::take(hunk);
    (!hunk.lines.is_empty()).then(|| {
        json!({
            "oldStart": hunk.old.0,
            "oldLines": hunk.old.1,
            "newStart": hunk.new.0,
            "newLines": hunk.new.1,
            "lines": hunk.lines,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_count_old_and_new_lines() {
        let diff = " 1 one\n-2 two\n+2 zwei\n+3 drei\n 3 three\n   ...\n 9 nine\n-10   ten\n   ...";
        let expected = json!([
            {"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 4,
             "lines": [" one", "-two", "+zwei", "+drei", " three"]},
            {"oldStart": 9, "oldLines": 2, "newStart": 10, "newLines": 1,
             "lines": [" nine", "-  ten"]},
        ]);
        assert_eq!(hunks(diff), expected);
        assert_eq!(hunks(""), json!([]));
        assert_eq!(hunks("+1 new")[0]["oldStart"], 1);
    }
}
