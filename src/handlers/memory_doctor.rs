//! `doctor.memory.*`: the memory of the default agent, and what OpenClaw's
//! dreaming left in its workspace. This gateway searches memory by words and
//! does not dream.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::agent::memory::FILES_MAX;
use crate::agent::memory::dreams::{Dreams, DreamsError};
use crate::config::AgentSettings;
use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::registry::{Ctx, Reply};
use crate::support::{blocking, json, without_nulls};

/// Why nothing is written that only a dream would write.
const NO_DREAMS: &str = "this gateway does not dream: it writes no dream diary";
/// When the original dreams, unless somebody says otherwise.
const NIGHTLY: &str = "0 3 * * *";

/// `doctor.memory.status`: what there is to remember, and how it is searched.
pub async fn status(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let agent = agent(&cx)?;
    let workspace = agent.workspace.display().to_string();
    let indexed = cx.services.runs.parts().store.memory_files(&workspace).await;
    let indexed = indexed.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    let now = i64::try_from(cx.now_ms()).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let today = now.unwrap_or_default().to_zoned(TimeZone::UTC).date().to_string();
    let (id, (files, bytes), found) =
        with_dreams(&cx, move |dreams| Ok((dreams.memory()?, dreams.summary(&today)?)))
            .await
            .map(|(id, (memory, found))| (id, memory, found))?;
    let mut dreaming = json!({
        "enabled": false,
        "offered": false,
        "verboseLogging": false,
        "storageMode": "separate",
        "separateReports": false,
        "phases": phases(),
    });
    if let (Value::Object(dreaming), Value::Object(found)) = (&mut dreaming, found) {
        dreaming.extend(found);
    }
    Ok(json!({
        "agentId": id,
        "provider": "none",
        "embedding": {
            "ok": false,
            "checked": true,
            "error": "memory is searched by words; this gateway makes no embeddings",
        },
        "memory": {
            "search": "words",
            "files": files,
            "bytes": bytes,
            "indexedFiles": indexed.len(),
            "leftOutFiles": files.saturating_sub(FILES_MAX),
        },
        "dreaming": dreaming,
    }))
}

/// The phases of a dream with what the original would do in them.
fn phases() -> Value {
    json!({
        "light": {"enabled": false, "cron": NIGHTLY, "lookbackDays": 2, "limit": 100,
            "managedCronPresent": false},
        "deep": {"enabled": false, "cron": NIGHTLY, "limit": 10, "minScore": 0.8,
            "minRecallCount": 3, "minUniqueQueries": 3, "recencyHalfLifeDays": 14,
            "managedCronPresent": false, "maxAgeDays": 30},
        "rem": {"enabled": false, "cron": NIGHTLY, "lookbackDays": 7, "limit": 10,
            "minPatternStrength": 0.75, "managedCronPresent": false},
    })
}

/// `doctor.memory.dreamDiary`: the diary, where there is one.
pub async fn diary(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let (id, diary) = with_dreams(&cx, Dreams::diary).await?;
    Ok(without_nulls(json!({
        "agentId": id,
        "found": diary.text.is_some(),
        "path": diary.path,
        "content": diary.text,
    })))
}

/// `doctor.memory.backfillDreamDiary`: without daily notes there is nothing to
/// do; with them it would be a dream.
pub async fn backfill(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let (id, (notes, diary)) =
        with_dreams(&cx, |dreams| Ok((dreams.daily_notes()?, dreams.diary()?))).await?;
    if notes > 0 {
        return Err(ErrorShape::unavailable(format!("{NO_DREAMS}; {notes} daily notes are there")));
    }
    Ok(json!({
        "agentId": id,
        "path": diary.path,
        "action": "backfill",
        "found": diary.text.is_some(),
        "scannedFiles": 0,
        "written": 0,
        "replaced": 0,
    }))
}

/// `doctor.memory.resetDreamDiary`: removes what a backfill has added.
pub async fn reset_diary(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let (id, change) = with_dreams(&cx, Dreams::remove_backfilled).await?;
    Ok(json!({
        "agentId": id,
        "path": change.path,
        "action": "reset",
        "found": change.found,
        "removedEntries": change.removed,
    }))
}

/// `doctor.memory.dedupeDreamDiary`: removes entries that are there twice.
pub async fn dedupe_diary(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let (id, change) = with_dreams(&cx, Dreams::remove_doubled).await?;
    Ok(json!({
        "agentId": id,
        "action": "dedupeDreamDiary",
        "path": change.path,
        "found": change.found,
        "removedEntries": change.removed,
        "dedupedEntries": change.removed,
        "keptEntries": change.kept,
    }))
}

/// `doctor.memory.resetGroundedShortTerm`: removes what only a backfill has
/// recalled.
pub async fn reset_grounded(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let (id, removed) = with_dreams(&cx, Dreams::remove_grounded).await?;
    Ok(json!({
        "agentId": id,
        "action": "resetGroundedShortTerm",
        "removedShortTermEntries": removed,
    }))
}

/// `doctor.memory.repairDreamingArtifacts`: moves what was kept of transcripts
/// out of the way.
pub async fn repair(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let now_ms = cx.now_ms();
    let (id, (place, (corpus, ingestion))) = with_dreams(&cx, move |dreams| {
        let (place, stamp) = dreams.repair_place(now_ms);
        Ok((place, dreams.put_aside(&stamp)?))
    })
    .await?;
    Ok(json!({
        "agentId": id,
        "action": "repairDreamingArtifacts",
        "changed": corpus || ingestion,
        "archiveDir": place,
        "archivedDreamsDiary": false,
        "archivedSessionCorpus": corpus,
        "archivedSessionIngestion": ingestion,
        "warnings": [],
    }))
}

/// `doctor.memory.remHarness`: what a dream would find. Of nothing it finds
/// nothing; what there is, is not looked into.
pub async fn rem_harness(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let workspace = agent(&cx)?.workspace.display().to_string();
    let (id, entries) = with_dreams(&cx, Dreams::recalled).await?;
    let is_skipped = entries > 0;
    let nothing = ["- No strong patterns surfaced.", "- No strong candidate truths surfaced."];
    let body = ["### Reflections", nothing[0], "", "### Possible Lasting Truths", nothing[1]];
    Ok(json!({
        "ok": true,
        "agentId": id,
        "workspaceDir": workspace,
        "remConfig": {"enabled": false, "lookbackDays": 7, "limit": 10, "minPatternStrength": 0.75},
        "deepConfig": {"minScore": 0.8, "minRecallCount": 3, "minUniqueQueries": 3,
            "recencyHalfLifeDays": 14, "maxAgeDays": 30},
        "rem": {
            "skipped": is_skipped,
            "sourceEntryCount": entries,
            "reflections": if is_skipped { &[][..] } else { &nothing[..1] },
            "candidateTruths": [],
            "bodyLines": if is_skipped { &[][..] } else { &body[..] },
        },
        "grounded": null,
        "deep": {"candidateLimit": 25, "truncated": false, "candidates": []},
    }))
}

/// The default agent.
fn agent(cx: &Ctx) -> Reply<AgentSettings> {
    let (settings, keys) = (cx.services.settings.now(), cx.services.keys.now());
    let agent = settings.agents.agent(keys.default_agent.as_str());
    agent.cloned().ok_or_else(|| ErrorShape::unavailable("there is no default agent"))
}

/// Works with the files of the default agent where that may block.
async fn with_dreams<T: Send + 'static>(
    cx: &Ctx,
    work: impl FnOnce(&Dreams) -> Result<T, DreamsError> + Send + 'static,
) -> Reply<(String, T)> {
    let agent = agent(cx)?;
    let dreams = Dreams::of(&cx.services.settings.now(), &agent);
    let worked = blocking(move || work(&dreams)).await?;
    let done = worked.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    Ok((agent.id, done))
}
