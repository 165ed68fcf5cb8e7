//! Looking for a skill among those that are here.

use super::check::Verdict;
use crate::support::sort;

/// What the words of a query are worth where they are found.
const IN_NAME: f64 = 2.0;
const IN_DESCRIPTION: f64 = 1.0;

/// The skills that a query fits, the best first, with how well it does (from 0
/// to 1). Each of its words must be in the name or the description; without a
/// query all fit, in the order of their names.
pub fn matching<'a>(verdicts: &'a [Verdict], query: Option<&str>) -> Vec<(f64, &'a Verdict)> {
    let query = query.unwrap_or_default().to_lowercase();
    let words: Vec<_> = query.split_whitespace().collect();
    let mut found: Vec<_> =
        verdicts.iter().filter_map(|verdict| Some((score(verdict, &words)?, verdict))).collect();
    sort::by(&mut found, |(one, a), (other, b)| {
        other.total_cmp(one).then_with(|| a.skill.head.name.cmp(&b.skill.head.name))
    });
    found
}

fn score(verdict: &Verdict, words: &[&str]) -> Option<f64> {
    let head = &verdict.skill.head;
    let (name, about) = (head.name.to_lowercase(), head.description.to_lowercase());
    let mut score = 0.0;
    for word in words {
        let (in_name, in_about) = (name.contains(word), about.contains(word));
        if !in_name && !in_about {
            return None;
        }
        score += f64::from(u8::from(in_name)) * IN_NAME;
        score += f64::from(u8::from(in_about)) * IN_DESCRIPTION;
    }
    let count = u32::try_from(words.len()).unwrap_or(u32::MAX);
    Some(if count == 0 { 0.0 } else { score / (f64::from(count) * (IN_NAME + IN_DESCRIPTION)) })
}
