//! A disk that has forgotten what nobody synced.
//!
//! Made of the system calls of a gateway: which bytes went where, which names
//! came and went, and which syncs returned. From that follows what may be left
//! after a power loss between two calls. Only this is sure: what was written to a
//! file before a sync of that file, and what happened to a name before a sync of
//! its folder.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::calls::Call;
use crate::dice::Dice;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// A file or a folder, whatever its name.
type Node = usize;

/// A name in a folder.
type Name = (Node, String);

/// What happened, in order.
enum Event {
    /// Bytes of a file.
    Write { node: Node, at: usize, bytes: Vec<u8> },
    /// Another length of a file.
    Length { node: Node, bytes: usize },
    /// Names that are gone, and one that is there; all of it or nothing.
    Names { gone: Vec<Name>, new: Option<(Name, Node)> },
    /// What was done to a file or to the names in a folder is on the disk.
    Synced(Node),
    /// Somebody was told something.
    Told(Vec<u8>),
}

/// What became of what was not synced.
#[derive(Debug)]
pub enum Fate<'a> {
    /// Only the process is gone.
    Kept,
    /// All of it is lost.
    Lost,
    /// Some is there and some is not, down to sectors of one write; of the names in
    /// a folder the later ones are lost.
    Mixed(&'a mut Dice),
}

/// A file that is open.
struct Open {
    node: Node,
    appends: bool,
    at: usize,
}

/// All that happened below a folder.
pub struct Disk {
    root: PathBuf,
    /// Whether a node is a folder.
    folders: Vec<bool>,
    /// Names as they are for the process.
    names: BTreeMap<Name, Node>,
    /// Files as they are for the process.
    contents: HashMap<Node, Vec<u8>>,
    open: HashMap<i64, Open>,
    /// What was there at the beginning.
    base_names: BTreeMap<Name, Node>,
    base_contents: HashMap<Node, Vec<u8>>,
    events: Vec<Event>,
}

impl Disk {
    /// The folder as it is, all of it synced.
    pub fn of(root: &Path) -> Self {
        let mut disk = Self {
            root: root.to_owned(),
            folders: vec![true],
            names: BTreeMap::new(),
            contents: HashMap::new(),
            open: HashMap::new(),
            base_names: BTreeMap::new(),
            base_contents: HashMap::new(),
            events: Vec::new(),
        };
        disk.take_in(root, 0);
        disk.base_names = disk.names.clone();
        disk.base_contents = disk.contents.clone();
        disk
    }

    fn take_in(&mut self, folder: &Path, node: Node) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if !kind.is_dir() && !kind.is_file() {
                continue;
            }
            let name = (node, entry.file_name().into_string().unwrap());
            let new = self.node(kind.is_dir());
            self.names.insert(name, new);
            if kind.is_dir() {
                self.take_in(&entry.path(), new);
            } else {
                self.contents.insert(new, fs::read(entry.path()).unwrap());
            }
        }
    }

    /// How many things happened.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The first moment, from one on, at which somebody has been told all of this at once.
    pub fn told(&self, from: usize, parts: &[&str]) -> Option<usize> {
        let has = |bytes: &[u8], part: &str| {
            bytes.windows(part.len()).any(|window| window == part.as_bytes())
        };
        let is_it = |event: &Event| match event {
            Event::Told(bytes) => parts.iter().all(|part| has(bytes, part)),
            _ => false,
        };
        let found = self.events.iter().skip(from).position(is_it)?;
        Some(from + found + 1)
    }

    /// Whether a power loss may leave something else at this moment than just before.
    pub fn changes_at(&self, moment: usize) -> bool {
        moment == 0 || !matches!(self.events[moment - 1], Event::Told(_))
    }

    /// Takes in a call that has returned.
    pub fn note(&mut self, call: &Call) {
        if call.result < 0 {
            return;
        }
        match call.name.as_str() {
            "openat" => self.opened(call, 1, 2),
            "open" => self.opened(call, 0, 1),
            "write" | "pwrite64" | "writev" | "sendto" | "sendmsg" => self.written(call),
            "lseek" => {
                if let Some(open) = call.number(0).and_then(|file| self.open.get_mut(&file)) {
                    open.at = size(call.result);
                }
            }
            "copy_file_range" => self.copied(call),
            "ftruncate" => {
                if let (Some(node), Some(bytes)) = (self.file(call), call.number(1)) {
                    self.length(node, size(bytes));
                }
            }
            "fsync" | "fdatasync" => {
                let node = call.place(0).and_then(|place| self.find(&place));
                self.events.extend(node.map(Event::Synced));
            }
            "mkdir" => self.made(call.path(0)),
            "mkdirat" => self.made(call.path(1)),
            "unlink" | "rmdir" => self.unlinked(call.path(0)),
            "unlinkat" => self.unlinked(call.path(1)),
            "rename" => self.renamed(call.path(0), call.path(1)),
            "renameat" | "renameat2" => self.renamed(call.path(1), call.path(3)),
            "link" => self.linked(call.path(0), call.path(1)),
            "linkat" => self.linked(call.path(1), call.path(3)),
            other => panic!("nobody has said what {other} does to a disk"),
        }
    }

    fn node(&mut self, is_folder: bool) -> Node {
        self.folders.push(is_folder);
        self.folders.len() - 1
    }

    /// The folder and the name of a path below ours.
    fn name(&self, path: &Path) -> Option<Name> {
        let below = path.strip_prefix(&self.root).ok()?;
        let mut parts = below.iter().map(|part| part.to_str().unwrap().to_owned());
        let last = parts.next_back()?;
        let folder = parts.try_fold(0, |node, part| self.names.get(&(node, part)).copied())?;
        Some((folder, last))
    }

    fn find(&self, path: &Path) -> Option<Node> {
        if path == self.root {
            return Some(0);
        }
        self.names.get(&self.name(path)?).copied()
    }

    /// The file that a call is about: by its number, which a duplicate does not have. What
    /// has no path, such as a pipe, may have got the number of a file that is closed.
    fn file(&self, call: &Call) -> Option<Node> {
        let place = call.place(0).filter(|place| place.is_absolute())?;
        let known = call.number(0).and_then(|file| self.open.get(&file)).map(|open| open.node);
        known.or_else(|| self.find(&place))
    }

    fn opened(&mut self, call: &Call, path: usize, flags: usize) {
        self.open.remove(&call.result);
        let Some(name) = call.path(path).and_then(|path| self.name(&path)) else { return };
        let node = match self.names.get(&name) {
            Some(node) => *node,
            None if call.has_flag(flags, "O_CREAT") => {
                let node = self.node(false);
                self.contents.insert(node, Vec::new());
                self.rename(Vec::new(), Some((name, node)));
                node
            }
            None => return,
        };
        if self.folders[node] {
            return;
        }
        if call.has_flag(flags, "O_TRUNC") {
            self.length(node, 0);
        }
        let appends = call.has_flag(flags, "O_APPEND");
        self.open.insert(call.result, Open { node, appends, at: 0 });
    }

    fn written(&mut self, call: &Call) {
        let done = size(call.result);
        let Some(place) = call.place(0) else { return };
        if place.to_str().is_some_and(|it| it.starts_with("socket:")) {
            self.events.push(Event::Told(call.texts()));
            return;
        }
        let Some(node) = self.file(call) else { return };
        let mut bytes = call.texts();
        bytes.truncate(done);
        assert_eq!(bytes.len(), done, "the log has all that was written to {}", place.display());
        let end = self.contents[&node].len();
        let at = match (call.name.as_str(), self.open.get_mut(&call.number(0).unwrap())) {
            ("pwrite64", _) => size(call.number(3).unwrap()),
            (_, Some(open)) if !open.appends => {
                let at = open.at;
                open.at += done;
                at
            }
            _ => end,
        };
        self.write(node, at, bytes);
    }

    fn copied(&mut self, call: &Call) {
        let done = size(call.result);
        let from = call.number(0).and_then(|file| self.open.get_mut(&file));
        let Some(from) = from else { return };
        let (source, at) = (from.node, from.at);
        from.at += done;
        let bytes = self.contents[&source][at..at + done].to_vec();
        let to = call.number(2).and_then(|file| self.open.get_mut(&file));
        let Some(to) = to else { return };
        let (node, at) = (to.node, to.at);
        to.at += done;
        self.write(node, at, bytes);
    }

    fn write(&mut self, node: Node, at: usize, bytes: Vec<u8>) {
        put(self.contents.get_mut(&node).unwrap(), at, &bytes);
        self.events.push(Event::Write { node, at, bytes });
    }

    fn length(&mut self, node: Node, bytes: usize) {
        self.contents.get_mut(&node).unwrap().resize(bytes, 0);
        self.events.push(Event::Length { node, bytes });
    }

    fn made(&mut self, path: Option<PathBuf>) {
        let Some(name) = path.and_then(|path| self.name(&path)) else { return };
        let node = self.node(true);
        self.rename(Vec::new(), Some((name, node)));
    }

    fn unlinked(&mut self, path: Option<PathBuf>) {
        let name = path.and_then(|path| self.name(&path));
        if let Some(name) = name.filter(|name| self.names.contains_key(name)) {
            self.rename(vec![name], None);
        }
    }

    fn renamed(&mut self, from: Option<PathBuf>, to: Option<PathBuf>) {
        let from = from.and_then(|path| self.name(&path));
        let Some(from) = from.filter(|name| self.names.contains_key(name)) else { return };
        let (to, node) = (to.and_then(|path| self.name(&path)), self.names[&from]);
        self.rename(vec![from], to.map(|to| (to, node)));
    }

    fn linked(&mut self, from: Option<PathBuf>, to: Option<PathBuf>) {
        let node = from.and_then(|path| self.find(&path));
        let to = to.and_then(|path| self.name(&path));
        if let (Some(node), Some(to)) = (node, to) {
            self.rename(Vec::new(), Some((to, node)));
        }
    }

    fn rename(&mut self, gone: Vec<Name>, new: Option<(Name, Node)>) {
        rename(&mut self.names, &gone, new.as_ref());
        self.events.push(Event::Names { gone, new });
    }

    /// Which of the first events a power loss after them would leave, whatever it does.
    fn sure(&self, moment: usize) -> Vec<bool> {
        let mut synced = BTreeSet::new();
        let mut sure = vec![false; moment];
        for (event, sure) in self.events[..moment].iter().zip(&mut sure).rev() {
            *sure = match event {
                Event::Synced(node) => {
                    synced.insert(*node);
                    true
                }
                Event::Write { node, .. } | Event::Length { node, .. } => synced.contains(node),
                Event::Names { gone, new } => {
                    folders(gone, new.as_ref()).any(|folder| synced.contains(&folder))
                }
                Event::Told(_) => true,
            };
        }
        sure
    }

    /// Puts into the folder what is left after the first events.
    pub fn leave(&self, moment: usize, mut fate: Fate<'_>) {
        let sure = self.sure(moment);
        let mut names = self.base_names.clone();
        let mut contents = self.base_contents.clone();
        // Where the names of a folder begin to be lost.
        let mut lost: BTreeSet<Node> = BTreeSet::new();
        for (event, sure) in self.events[..moment].iter().zip(sure) {
            match event {
                Event::Names { gone, new } => {
                    let stays = sure
                        || match &mut fate {
                            Fate::Kept => true,
                            Fate::Lost => false,
                            Fate::Mixed(dice) => {
                                let here: Vec<_> = folders(gone, new.as_ref()).collect();
                                let stays = here.iter().all(|folder| !lost.contains(folder))
                                    && dice.up_to(3) > 0;
                                if !stays {
                                    lost.extend(here);
                                }
                                stays
                            }
                        };
                    if stays {
                        rename(&mut names, gone, new.as_ref());
                    }
                }
                Event::Write { node, at, bytes } => {
                    let content = contents.entry(*node).or_default();
                    for (part, at) in bytes.chunks(SECTOR).zip((*at..).step_by(SECTOR)) {
                        if sure || fate.keeps() {
                            put(content, at, part);
                        }
                    }
                }
                Event::Length { node, bytes } => {
                    if sure || fate.keeps() {
                        contents.entry(*node).or_default().resize(*bytes, 0);
                    }
                }
                Event::Synced(_) | Event::Told(_) => {}
            }
        }
        self.lay_out(&names, &contents);
    }

    fn lay_out(&self, names: &BTreeMap<Name, Node>, contents: &HashMap<Node, Vec<u8>>) {
        for entry in fs::read_dir(&self.root).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(entry.path()).unwrap();
            } else {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        let mut folders = vec![(0, self.root.clone())];
        while let Some((folder, path)) = folders.pop() {
            let inside = names.range((folder, String::new())..(folder + 1, String::new()));
            for ((_, name), node) in inside {
                let path = path.join(name);
                if self.folders[*node] {
                    DirBuilder::new().mode(0o700).create(&path).unwrap();
                    folders.push((*node, path));
                } else {
                    let mut file = OpenOptions::new();
                    let file = file.write(true).create_new(true).mode(0o600).open(&path);
                    let content = contents.get(node).map_or(&[][..], Vec::as_slice);
                    file.unwrap().write_all(content).unwrap();
                }
            }
        }
    }
}

impl Fate<'_> {
    /// Whether a sector stays that nobody synced.
    fn keeps(&mut self) -> bool {
        match self {
            Self::Kept => true,
            Self::Lost => false,
            Self::Mixed(dice) => dice.up_to(2) == 0,
        }
    }
}

fn folders(gone: &[Name], new: Option<&(Name, Node)>) -> impl Iterator<Item = Node> {
    let new = new.map(|((folder, _), _)| *folder);
    gone.iter().map(|(folder, _)| *folder).chain(new)
}

fn rename(names: &mut BTreeMap<Name, Node>, gone: &[Name], new: Option<&(Name, Node)>) {
    for name in gone {
        names.remove(name);
    }
    if let Some((name, node)) = new {
        names.insert(name.clone(), *node);
    }
}

fn put(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

fn size(number: i64) -> usize {
    usize::try_from(number).expect("no negative length")
}

#[test]
fn what_has_the_number_of_a_closed_file_writes_nothing_into_it() {
    let root = tempfile::tempdir().unwrap();
    let hex =
        |text: &str| -> String { text.bytes().map(|byte| format!("\\x{byte:02x}")).collect() };
    let (path, waker) = (hex(root.path().join("a").to_str().unwrap()), hex("anon_inode:[eventfd]"));
    let log = format!(
        "7 openat(AT_FDCWD<{path}>, \"{path}\", O_RDWR|O_CREAT, 0600) = 3<{path}>\n\
         7 write(3<{path}>, \"{}\", 2) = 2\n\
         7 write(3<{waker}>, \"\\x01\", 1) = 1\n",
        hex("ab")
    );
    let mut disk = Disk::of(root.path());
    crate::calls::read(&log).iter().for_each(|call| disk.note(call));
    assert_eq!(disk.contents.values().collect::<Vec<_>>(), [b"ab"]);
}
