//! What a request to a path of the configuration comes to.

use crate::config::HooksSettings;
use crate::config::hooks::{Fields, HookAction, HookMapping, Source, Template};

use super::policy;
use super::sent::{Filled, Sent};
use super::wanted::{Action, Asking, Chosen, channel};

/// Longest text that a template comes to, in bytes: more than the largest body,
/// and no template makes memory scarce.
const TEXT_MAX: usize = 16 * 1024 * 1024;
/// Longest name, key and the like.
const WORD_MAX: usize = 4096;

/// What the first mapping says that is meant, of those that may be used. None
/// when none is, or when that one is off.
pub(super) fn action(
    hooks: &HooksSettings,
    sent: &Sent<'_>,
    proven: &[bool],
) -> Option<Result<Action, String>> {
    let mut usable = hooks.mappings.iter().zip(proven).filter(|(_, proven)| **proven);
    let (mapping, _) = usable.find(|(mapping, _)| is_meant(mapping, sent))?;
    // Nobody else gets what its program would have judged.
    if mapping.is_off {
        return None;
    }
    let filled = Filled { sent, transform: &mapping.transform };
    let Some(fields) = fields(mapping, &filled) else { return Some(Ok(Action::Skip)) };
    Some(match fields.action {
        Some(HookAction::Wake) => tell(&fields, &filled),
        Some(HookAction::Agent) | None => {
            ask(mapping, &fields, &filled).map(|asking| Action::Ask(Box::new(asking)))
        }
    })
}

fn is_meant(mapping: &HookMapping, sent: &Sent<'_>) -> bool {
    mapping.has_path(sent.path)
        && mapping.source.as_deref().is_none_or(|source| {
            sent.payload.get("source").and_then(|it| it.as_str()) == Some(source)
        })
}

/// What is done with a request; none when nothing is.
fn fields(mapping: &HookMapping, filled: &Filled<'_>) -> Option<Fields> {
    let rules = &mapping.transform;
    if !rules.when.iter().all(|condition| condition.holds(filled)) {
        return None;
    }
    let fields = rules.set.over(&mapping.fields);
    let holds = |case: &&crate::config::hooks::Case| case.when.iter().all(|it| it.holds(filled));
    match rules.cases.iter().find(holds) {
        Some(case) if case.skip => None,
        Some(case) => Some(case.set.over(&fields)),
        None => Some(fields),
    }
}

fn fill(
    template: Option<&Template>,
    source: &dyn Source,
    max: usize,
) -> Result<Option<String>, String> {
    let Some(template) = template else { return Ok(None) };
    let text = template.fill(source, max).ok_or("hook mapping makes a text that is too long")?;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn tell(fields: &Fields, source: &Filled<'_>) -> Result<Action, String> {
    let text = fill(fields.text.as_ref(), source, TEXT_MAX)?;
    let text = text.ok_or("hook mapping requires text")?;
    Ok(Action::Tell { text, mode: fields.wake_mode.unwrap_or_default() })
}

fn ask(mapping: &HookMapping, fields: &Fields, source: &Filled<'_>) -> Result<Asking, String> {
    let word = |template: Option<&Template>| fill(template, source, WORD_MAX);
    let message = fill(fields.message.as_ref(), source, TEXT_MAX)?;
    let key = fields.session_key.as_ref();
    let is_templated = key.is_some_and(Template::has_values);
    let chosen = if is_templated { Chosen::ByRequest } else { Chosen::ByConfig };
    Ok(Asking {
        message: message.ok_or("hook mapping requires message")?,
        name: word(fields.name.as_ref())?.unwrap_or_else(|| "Hook".into()),
        agent_id: fields.agent_id.clone(),
        session_key: word(key)?.map(|key| (key, chosen)),
        prefix: mapping.session_key_prefix.clone(),
        wake_mode: fields.wake_mode.unwrap_or_default(),
        deliver: fields.deliver != Some(false),
        channel: channel(fields.channel.as_deref().unwrap_or("last"))?,
        to: word(fields.to.as_ref())?,
        model: word(fields.model.as_ref())?,
        thinking: word(fields.thinking.as_ref())?,
        timeout_seconds: fields.timeout_seconds,
        source: (!mapping.allow_unsafe).then(|| policy::source(source.sent)),
    })
}
