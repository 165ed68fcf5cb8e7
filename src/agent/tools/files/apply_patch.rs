//! `apply_patch`: changes of several files, all of them or none.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::Value;

use super::patch::{self, FileChange};
use super::{EDIT_MAX, blocking, reach, rules, text};
use crate::agent::reach::{FileLocks, Made, Place, PlaceId, Reach, Rights, Staged};
use crate::agent::tools::{Tool, ToolContext, ToolOutput};
use crate::config::Settings;
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, json, sort};

/// Bytes of all files of a patch, before and after: they are in memory at once.
const TOTAL_MAX: usize = 64 * 1024 * 1024;

const NAME: &str = "apply_patch";

/// The tool.
pub struct ApplyPatch {
    locks: FileLocks,
}

impl ApplyPatch {
    /// The tool, beside others that change files.
    pub const fn new(locks: FileLocks) -> Self {
        Self { locks }
    }

    async fn patch(&self, cx: &ToolContext, arguments: &Value) -> Result<ToolOutput, ToolOutput> {
        let input = text(arguments, "input").to_owned();
        let mut reach = reach(cx).await;
        if rules(cx).is_patch_workspace_only() {
            reach = reach.limited(true);
        }
        let (work, ids) = blocking(NAME, move || {
            let changes = patch::parse(&input)?;
            let mut work = Work { reach, changes, places: HashMap::new(), folders: Vec::new() };
            work.find()?;
            let ids = work.places.values().map(|(id, _)| id.clone()).collect();
            Ok((work, ids))
        })
        .await?;
        let held = self.locks.take(ids).await;
        blocking(NAME, move || {
            let _held = held;
            work.run()
        })
        .await
    }
}

/// A patch on its way.
struct Work {
    reach: Reach,
    changes: Vec<FileChange>,
    /// By the path as it is written.
    places: HashMap<String, (PlaceId, Place)>,
    /// Folders that were made for it.
    folders: Vec<PathBuf>,
}

/// A file before the patch and after it; `None` when there is none.
struct State {
    written: String,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
    /// Its rights before the patch.
    rights: Option<Rights>,
    /// Those of what is moved here.
    moved: Option<Rights>,
}

impl State {
    /// The rights that it has after the patch.
    fn final_rights(&self) -> Option<Rights> {
        self.moved.or(self.rights)
    }

    fn is_changed(&self) -> bool {
        self.before != self.after || self.rights != self.final_rights()
    }
}

/// Files by what was done to them, as the patch names them.
#[derive(Default)]
struct Summary {
    added: Vec<String>,
    modified: Vec<String>,
    deleted: Vec<String>,
}

impl Work {
    /// Looks up every file, and makes the folders of new ones.
    fn find(&mut self) -> Result<(), String> {
        let changes = std::mem::take(&mut self.changes);
        let found = changes.iter().try_for_each(|change| match change {
            FileChange::Add { path, .. } => self.look_up(path, true),
            FileChange::Delete { path } => self.look_up(path, false),
            FileChange::Update { path, move_to, .. } => {
                let to = move_to.as_ref().map(|to| (to, true));
                let mut paths = std::iter::once((path, false)).chain(to);
                paths.try_for_each(|(path, is_new)| self.look_up(path, is_new))
            }
        });
        self.changes = changes;
        if found.is_err() {
            self.reach.unmake(&self.folders);
        }
        found
    }

    fn look_up(&mut self, path: &str, is_new: bool) -> Result<(), String> {
        if self.places.contains_key(path) {
            return Ok(());
        }
        let found = if is_new {
            self.reach.find_or_make(path)
        } else {
            self.reach.find(path).map(|place| Made { place, folders: Vec::new() })
        };
        let made = found.map_err(|error| error.to_string())?;
        // The innermost first, also over several files.
        self.folders.splice(0..0, made.folders);
        let id = made.place.id().map_err(|error| error.to_string())?;
        self.places.insert(path.to_owned(), (id, made.place));
        Ok(())
    }

    fn run(self) -> Result<ToolOutput, String> {
        let done = self.plan().and_then(|(states, summary)| {
            self.write(&states)?;
            Ok(summary.output())
        });
        if done.is_err() {
            self.reach.unmake(&self.folders);
        }
        done
    }

    /// What every file is to hold, without touching any.
    fn plan(&self) -> Result<(Vec<State>, Summary), String> {
        let mut states = States { work: self, known: Vec::new(), total: 0 };
        let mut summary = Summary::default();
        for change in &self.changes {
            match change {
                FileChange::Add { path, contents } => {
                    states.set(path, Some(contents.clone().into_bytes()))?;
                    summary.added.push(path.clone());
                }
                FileChange::Delete { path } => {
                    states.existing(path)?;
                    states.remove(path)?;
                    summary.deleted.push(path.clone());
                }
                FileChange::Update { path, move_to, chunks } => {
                    let before = String::from_utf8(states.existing(path)?)
                        .map_err(|_| format!("Cannot patch {path}: it is not UTF-8 text."))?;
                    let after = patch::apply(&before, chunks, path)?.into_bytes();
                    if let Some(to) = move_to {
                        let moved = states.state(path)?.final_rights();
                        states.remove(path)?;
                        states.set(to, Some(after))?;
                        states.state(to)?.moved = moved;
                    } else {
                        states.set(path, Some(after))?;
                    }
                    summary.modified.push(move_to.as_ref().unwrap_or(path).clone());
                }
            }
        }
        Ok((states.known, summary))
    }

    /// Writes all of it. What cannot be written fails before anything changes;
    /// should the disk fail in the middle, what was changed is put back.
    fn write(&self, states: &[State]) -> Result<(), String> {
        let mut staged: Vec<(&State, Option<Staged<'_>>)> = Vec::new();
        for state in states.iter().filter(|state| state.is_changed()) {
            let stage = |bytes: &Vec<u8>| {
                let staged = self.place(&state.written)?.stage(bytes, state.moved);
                staged.map_err(|error| error.to_string())
            };
            staged.push((state, state.after.as_ref().map(stage).transpose()?));
        }
        // Removals last: a file that moves is there at every moment.
        sort::by_key(&mut staged, |(_, staged)| staged.is_none());
        let mut done = Vec::new();
        for (state, staged) in staged {
            let written = match staged {
                Some(staged) => staged.commit(),
                None => self.place(&state.written)?.remove(),
            };
            if let Err(error) = written {
                self.put_back(&done);
                return Err(error.to_string());
            }
            done.push(state);
        }
        Ok(())
    }

    fn put_back(&self, done: &[&State]) {
        for state in done {
            let Ok(place) = self.place(&state.written) else { continue };
            let back = match &state.before {
                Some(before) => place.stage(before, state.rights).and_then(Staged::commit),
                None => place.remove(),
            };
            if let Err(error) = back {
                tracing::error!("a patch failed, and {} is not as before: {error}", state.written);
            }
        }
    }

    fn place(&self, path: &str) -> Result<&Place, String> {
        let place = self.places.get(path).map(|(_, place)| place);
        place.ok_or_else(|| format!("{path} was not looked up"))
    }
}

/// The files of a patch, as they become.
struct States<'a> {
    work: &'a Work,
    known: Vec<State>,
    total: usize,
}

impl States<'_> {
    /// The state of a file, whatever name it is called by.
    fn state(&mut self, path: &str) -> Result<&mut State, String> {
        let id = self.work.places.get(path).map(|(id, _)| id);
        let same = |state: &State| self.work.places.get(&state.written).map(|(id, _)| id) == id;
        let known = self.known.iter().position(same);
        let at = known.map_or_else(|| self.load(path), Ok)?;
        self.known.get_mut(at).ok_or_else(|| format!("{path} was not looked up"))
    }

    /// Reads a file that was not needed yet; its place among the known ones.
    fn load(&mut self, path: &str) -> Result<usize, String> {
        let place = self.work.place(path)?;
        let rights = place.rights().map_err(|error| error.to_string())?;
        let before = rights.map(|_| place.read(EDIT_MAX)).transpose();
        let before = before.map_err(|error| error.to_string())?;
        self.grow(before.as_ref().map_or(0, Vec::len))?;
        let after = before.clone();
        let written = path.to_owned();
        self.known.push(State { written, before, after, rights, moved: None });
        Ok(self.known.len() - 1)
    }

    fn existing(&mut self, path: &str) -> Result<Vec<u8>, String> {
        let missing = |place: &Place| {
            let path = place.path().display();
            format!("ENOENT: no such file or directory, open '{path}'")
        };
        match self.state(path)?.after.clone() {
            Some(bytes) => Ok(bytes),
            None => Err(missing(self.work.place(path)?)),
        }
    }

    fn set(&mut self, path: &str, after: Option<Vec<u8>>) -> Result<(), String> {
        self.grow(after.as_ref().map_or(0, Vec::len))?;
        self.state(path)?.after = after;
        Ok(())
    }

    /// Takes a file away. A link would stay, and what it leads to would be gone.
    fn remove(&mut self, path: &str) -> Result<(), String> {
        if self.work.place(path)?.is_linked() {
            return Err(format!("Cannot remove {path}: it is a link to another file."));
        }
        self.set(path, None)?;
        self.state(path)?.moved = None;
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), String> {
        self.total += bytes;
        if self.total > TOTAL_MAX {
            return Err(format!("The files of the patch have more than {TOTAL_MAX} bytes"));
        }
        Ok(())
    }
}

impl Summary {
    fn output(mut self) -> ToolOutput {
        let mut text = String::from("Success. Updated the following files:");
        let groups = [("A", &mut self.added), ("M", &mut self.modified), ("D", &mut self.deleted)];
        for (mark, paths) in groups {
            let mut seen = Vec::with_capacity(paths.len());
            for path in paths.drain(..) {
                if !seen.contains(&path) {
                    text.extend(["\n", mark, " ", &path]);
                    seen.push(path);
                }
            }
            *paths = seen;
        }
        let details = json!({"summary": {
            "added": self.added,
            "modified": self.modified,
            "deleted": self.deleted,
        }});
        ToolOutput { details: Some(details), ..ToolOutput::text(text) }
    }
}

impl Tool for ApplyPatch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn is_offered(&self, settings: &Settings) -> bool {
        settings.tools.policy.files.has_patch()
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Apply a patch to one or more files using the apply_patch format. The \
                input should include *** Begin Patch and *** End Patch markers."
                .into(),
            parameters: json!({
                "type": "object",
                "required": ["input"],
                "properties": {
                    "input": {
                        "type": "string",
                        "description":
                            "Patch content using the *** Begin Patch/End Patch format.",
                    },
                },
            }),
        }
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            if !rules(cx).has_patch() {
                return ToolOutput::failed(NAME, "apply_patch is off for this agent.");
            }
            self.patch(cx, arguments).await.unwrap_or_else(|failed| failed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::reach::testing::Scene;
    use std::os::unix::fs::PermissionsExt;

    fn run(scene: &Scene, body: &str) -> Result<ToolOutput, String> {
        let changes = patch::parse(&format!("*** Begin Patch\n{body}\n*** End Patch"))?;
        let reach = scene.reach(true);
        let mut work = Work { reach, changes, places: HashMap::new(), folders: Vec::new() };
        work.find()?;
        work.run()
    }

    fn names(scene: &Scene) -> Vec<String> {
        let entries = std::fs::read_dir(scene.path("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_added_changed_moved_and_removed_together() {
        let scene = Scene::new();
        scene.put("b", "one\ntwo\n");
        scene.put("c", "gone\n");
        scene.put("d", "x\n");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scene.path("b"), mode).unwrap();
        let output = run(
            &scene,
            "*** Add File: new/a\n+first\n*** Update File: b\n@@\n one\n-two\n+2\n\
             *** Delete File: c\n*** Update File: d\n*** Move to: deep/e\n@@\n-x\n+y\n\
             *** Update File: b\n@@\n-2\n+3",
        )
        .unwrap();
        assert_eq!(
            output.to_text(),
            "Success. Updated the following files:\nA new/a\nM b\nM deep/e\nD c"
        );
        let summary = json!({"added": ["new/a"], "modified": ["b", "deep/e"], "deleted": ["c"]});
        assert_eq!(output.details.unwrap()["summary"], summary);
        let texts = ["new/a", "b", "deep/e"].map(|name| scene.text(name));
        assert_eq!(texts, ["first\n", "one\n3\n", "y\n"]);
        assert_eq!(names(&scene), ["b", "deep", "new"]);
        let mode = scene.path("b").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn what_is_moved_keeps_its_rights_wherever_it_goes() {
        let scene = Scene::new();
        let rights = |name: &str| scene.path(name).metadata().unwrap().permissions().mode() & 0o777;
        for (name, mode, text) in [
            ("secret", 0o600, "x\n"),
            ("script", 0o755, "x\n"),
            ("open", 0o644, "x\n"),
            ("private", 0o600, "x\n"),
            ("same", 0o644, "y\n"),
        ] {
            scene.put(name, text);
            std::fs::set_permissions(scene.path(name), std::fs::Permissions::from_mode(mode))
                .unwrap();
        }
        run(
            &scene,
            "*** Update File: secret\n*** Move to: open\n@@\n-x\n+y\n\
             *** Update File: script\n*** Move to: one\n@@\n-x\n+y\n\
             *** Update File: one\n*** Move to: two\n@@\n-y\n+z\n\
             *** Add File: script\n+new\n\
             *** Update File: private\n*** Move to: same\n@@\n-x\n+y",
        )
        .unwrap();
        assert_eq!((rights("open"), rights("two")), (0o600, 0o755));
        assert_eq!((rights("same"), scene.text("same")), (0o600, "y\n".into()));
        assert_eq!([scene.text("open"), scene.text("two")], ["y\n", "z\n"]);
        assert!(!scene.path("secret").exists() && !scene.path("one").exists());
    }

    #[test]
    fn a_patch_that_does_not_fit_changes_nothing() {
        let scene = Scene::new();
        scene.put("a", "one\n");
        for (body, error) in [
            ("*** Add File: x/y/z\n+1\n*** Update File: a\n@@\n-none\n+2", "Failed to find"),
            ("*** Delete File: a\n*** Delete File: none", "ENOENT: no such file"),
            ("*** Delete File: a\n*** Update File: a\n@@\n-one\n+2", "ENOENT"),
            ("*** Update File: a\n@@\n-one\n+2\n*** Add File: ../out\n+1", "Path escapes"),
            ("*** Add File: x\n+1\n*** Add File: a/b\n+1", "ENOTDIR"),
            ("*** Add File: x\n+1\n*** Delete File: .", "EISDIR"),
        ] {
            let found = run(&scene, body).unwrap_err();
            assert!(found.contains(error), "{found}");
            assert_eq!((scene.text("a").as_str(), names(&scene)), ("one\n", vec!["a".to_owned()]));
        }
    }

    #[test]
    fn a_link_is_patched_through_and_never_takes_its_file_along() {
        let scene = Scene::new();
        scene.put("a", "one\n");
        std::os::unix::fs::symlink("a", scene.path("link")).unwrap();
        run(&scene, "*** Update File: link\n@@\n-one\n+two").unwrap();
        for body in
            ["*** Delete File: link", "*** Update File: link\n*** Move to: b\n@@\n-two\n+three"]
        {
            assert!(run(&scene, body).unwrap_err().starts_with("Cannot remove link: "), "{body}");
        }
        assert_eq!((scene.text("a").as_str(), names(&scene).len()), ("two\n", 2));
        assert!(scene.path("link").symlink_metadata().unwrap().is_symlink());
    }

    #[test]
    fn one_file_by_two_names_is_one_file() {
        let scene = Scene::new();
        scene.put("a", "one\n");
        run(&scene, "*** Update File: a\n@@\n-one\n+two\n*** Update File: ./a\n@@\n-two\n+three")
            .unwrap();
        assert_eq!(scene.text("a"), "three\n");
    }

    #[test]
    fn what_was_changed_is_put_back_when_the_disk_fails_in_the_middle() {
        let scene = Scene::new();
        scene.put("a", "one\n");
        scene.put("b", "b\n");
        let body = "*** Begin Patch\n*** Update File: a\n@@\n-one\n+two\n*** Add File: n\n+n\n\
            *** Delete File: b\n*** End Patch";
        let changes = patch::parse(body).unwrap();
        let reach = scene.reach(true);
        let mut work = Work { reach, changes, places: HashMap::new(), folders: Vec::new() };
        work.find().unwrap();
        let (states, _) = work.plan().unwrap();
        // Somebody else is faster with the last step.
        std::fs::remove_file(scene.path("b")).unwrap();
        assert!(work.write(&states).unwrap_err().contains("ENOENT"));
        assert_eq!((scene.text("a").as_str(), names(&scene)), ("one\n", vec!["a".to_owned()]));
    }
}
