//! The undo journal of an agent: a file to which the agent adds a line before each change and after each undo.
//!
//! [`replay`] interprets a file and is pure; a different module executes the undo actions.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use iolab_protocol::lease::Resource;
use iolab_protocol::results::JournalEntry;
use iolab_protocol::Undo;
use nix::errno::Errno;
use nix::fcntl::{fallocate, FallocateFlags};
use serde::{Deserialize, Serialize};

/// The agent that wrote a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// Process ID of the agent.
    pub pid: u32,
    /// Start time of the process as reported by the kernel, in clock ticks.
    pub start_ticks: u64,
    /// Time at which the agent started its work, in ns.
    pub started_ns: u64,
    /// ID of the boot in which the agent ran.
    pub boot_id: String,
    /// Whether the agent changed only namespaces that it created, which no longer exist after its death.
    pub rootless: bool,
}

impl Author {
    /// Return the journal's ID, which is also its file name.
    pub fn journal(&self) -> String {
        format!("{}-{}", self.pid, self.start_ticks)
    }
}

/// Resources that an agent may change, and its lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Name of the lab.
    pub lab: String,
    /// All resources that the agent holds.
    pub resources: Vec<Resource>,
}

/// Content of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The agent that wrote the journal.
    pub author: Author,
    /// Lease of the agent; older agents recorded no lease and had exclusive use of the host.
    pub holding: Option<Holding>,
    /// The changes that have not been undone, in the order in which they were made.
    pub changes: Vec<JournalEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Author(Author),
    Lease(Holding),
    Change(JournalEntry),
    Undone(u64),
}

/// Parse the text of a journal; `None` without an author, because the agent died while it created the file.
///
/// A last line without newline is incomplete: the agent died before it made the change.
pub fn replay(text: &str) -> Option<Told> {
    let whole = &text[..text.rfind('\n')?];
    let (mut author, mut holding, mut changes) = (None, None, Vec::<JournalEntry>::new());
    for line in whole.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Author(each)) => author = Some(each),
            Ok(Line::Lease(each)) => holding = Some(each),
            Ok(Line::Change(change)) => changes.push(change),
            Ok(Line::Undone(sequence)) => changes.retain(|change| change.sequence != sequence),
            // Only a damaged disk causes an unreadable line; the changes in the other lines can still be undone.
            Err(_) => {}
        }
    }
    Some(Told { author: author?, holding, changes })
}

/// A journal that is open for writing: this agent's journal, or a dead agent's while it is being undone.
#[derive(Debug)]
pub struct Journal {
    author: Author,
    holding: Option<Holding>,
    path: PathBuf,
    file: Option<File>,
    size_bytes: u64,
    /// Space that is reserved for the file on its disk, in bytes.
    reserved_bytes: u64,
    last_sequence: u64,
    live: Vec<JournalEntry>,
}

impl Journal {
    /// Create an empty journal in `folder`; the first change creates the file.
    pub fn new(folder: &Path, author: Author) -> Self {
        let path = file_path(folder, &author.journal());
        Self {
            author,
            holding: None,
            path,
            file: None,
            size_bytes: 0,
            reserved_bytes: 0,
            last_sequence: 0,
            live: Vec::new(),
        }
    }

    /// Open the journal of a dead agent.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
        let Some(Told { author, holding, changes: live }) = replay(&text) else { return Ok(None) };
        let mut file = OpenOptions::new().append(true).open(path)?;
        if !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        let last_sequence = live.iter().map(|change| change.sequence).max().unwrap_or(0);
        let size_bytes = text.len() as u64;
        Ok(Some(Self {
            author,
            holding,
            path: path.to_owned(),
            file: Some(file),
            size_bytes,
            reserved_bytes: 0,
            last_sequence,
            live,
        }))
    }

    /// Return the agent that wrote the journal.
    pub fn author(&self) -> &Author {
        &self.author
    }

    /// Return the resources that the agent may change.
    pub fn holding(&self) -> Option<&Holding> {
        self.holding.as_ref()
    }

    /// Record the resources that the agent may change, before its first change.
    pub fn begin_lease(&mut self, holding: Holding) -> io::Result<()> {
        let before = self.holding.replace(holding);
        self.create().inspect_err(|_| self.holding = before)
    }

    /// Return the changes that have not been undone, in the order in which they were made.
    pub fn live(&self) -> &[JournalEntry] {
        &self.live
    }

    /// Return the first change with the given key that has not been undone.
    pub fn find(&self, undo_key: &str) -> Option<&JournalEntry> {
        self.live.iter().find(|change| change.undo_key == undo_key)
    }

    /// Record the undo of a change before the change is made. The same undo under the same key is not
    /// recorded again: the first one, undone last, restores the original. Return the sequence number of a new
    /// entry.
    pub fn append(&mut self, undo_key: &str, undo: Undo) -> io::Result<Option<u64>> {
        if self.live.iter().any(|change| change.undo_key == undo_key && change.undo == undo) {
            return Ok(None);
        }
        let change = JournalEntry { sequence: self.last_sequence + 1, undo_key: undo_key.to_owned(), undo };
        self.write(&Line::Change(change.clone()), self.live.len() + 1)?;
        self.last_sequence = change.sequence;
        self.live.push(change);
        Ok(Some(self.last_sequence))
    }

    /// Record that a change was undone.
    pub fn mark_undone(&mut self, sequence: u64) -> io::Result<()> {
        if self.live.iter().any(|change| change.sequence == sequence) {
            self.write(&Line::Undone(sequence), self.live.len() - 1)?;
            self.live.retain(|change| change.sequence != sequence);
            self.compact_if_worth();
        }
        Ok(())
    }

    /// Remove the file if no change is left to undo; a different agent may have removed it already.
    pub fn remove_if_empty(&mut self) -> io::Result<()> {
        if self.live.is_empty() && self.file.take().is_some() {
            return remove_file_if_there(&self.path);
        }
        Ok(())
    }

    /// Write a line, and reserve space for the undo lines of `live` changes, in case the disk becomes full.
    fn write(&mut self, line: &Line, live: usize) -> io::Result<()> {
        if self.file.is_none() {
            self.create()?;
        }
        let text = encode(line)?;
        self.reserve(self.size_bytes + text.len() as u64 + live as u64 * UNDONE_BYTES)?;
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        match written {
            Ok(()) => self.size_bytes += text.len() as u64,
            // The file may now contain part of a line (disk full): the next line starts a new file.
            Err(_) => self.file = None,
        }
        written
    }

    /// Reserve space for the file up to `bytes`; its length stays unchanged.
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| bytes > self.reserved_bytes) else { return Ok(()) };
        let wanted = bytes.next_multiple_of(RESERVED_BYTES);
        let length = i64::try_from(wanted).unwrap_or(i64::MAX);
        match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, length) {
            // If the file system does not support reservation, continue without it.
            Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => self.reserved_bytes = wanted,
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// Create the file with its author and its live changes, atomically through a rename.
    fn create(&mut self) -> io::Result<()> {
        let mut text = encode(&Line::Author(self.author.clone()))?;
        if let Some(holding) = &self.holding {
            text.push_str(&encode(&Line::Lease(holding.clone()))?);
        }
        for change in &self.live {
            text.push_str(&encode(&Line::Change(change.clone()))?);
        }
        let draft = self.path.with_extension(DRAFT_EXTENSION);
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)?;
        File::open(self.path.parent().unwrap_or_else(|| Path::new("/")))?.sync_all()?;
        self.file = Some(file);
        (self.size_bytes, self.reserved_bytes) = (text.len() as u64, 0);
        Ok(())
    }

    fn compact_if_worth(&mut self) {
        if self.size_bytes > COMPACT_BYTES && self.live.len() < COMPACT_ENTRIES {
            // If the disk has no space for a second file, continue with the first.
            let _ = self.create();
        }
    }
}

/// File name extension of a journal.
pub const EXTENSION: &str = "jsonl";

/// File name extension of a journal until the file is complete.
pub const DRAFT_EXTENSION: &str = "draft";

/// Return the file of the journal `id`.
pub fn file_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.{EXTENSION}"))
}

/// Remove a journal file; a different agent may have removed it already.
pub fn remove_file_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn encode(line: &Line) -> io::Result<String> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    Ok(text)
}

// Labs start and stop thousands of processes; a journal above this size with few live entries is mostly
// history.
const COMPACT_BYTES: u64 = 1 << 20;
const COMPACT_ENTRIES: usize = 500;
/// Maximum length of the line that marks a change as undone, in bytes.
const UNDONE_BYTES: u64 = 32;
/// Unit of space reservations, in bytes.
const RESERVED_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn author() -> Author {
        Author { pid: 4100, start_ticks: 771_234, started_ns: 5, boot_id: "b".to_owned(), rootless: false }
    }

    fn netns(name: &str) -> Undo {
        Undo::Netns { name: name.to_owned() }
    }

    fn keys(changes: &[JournalEntry]) -> Vec<&str> {
        changes.iter().map(|change| change.undo_key.as_str()).collect()
    }

    #[test]
    fn changes_not_marked_undone_are_replayed() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path(), author());
        journal.append("a", netns("a")).unwrap();
        let b = journal.append("b", netns("b")).unwrap().unwrap();
        journal.append("c", netns("c")).unwrap();
        journal.mark_undone(b).unwrap();
        let text = fs::read_to_string(folder.path().join("4100-771234.jsonl")).unwrap();
        let told = replay(&text).unwrap();
        assert_eq!((told.author, told.holding), (author(), None));
        assert_eq!(keys(&told.changes), ["a", "c"]);
    }

    #[test]
    fn truncated_journal_is_readable_and_loses_at_most_its_last_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path(), author());
        journal.append("a", netns("a")).unwrap();
        journal.append("b", netns("ü")).unwrap();
        let path = folder.path().join("4100-771234.jsonl");
        let bytes = fs::read(&path).unwrap();
        let ends: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').collect();
        for length in 0..bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            let whole_lines = ends.iter().filter(|&&end| end < length).count();
            let seen = Journal::open(&path).unwrap().map(|journal| journal.live().len());
            assert_eq!(seen, whole_lines.checked_sub(1), "cut at {length}");
        }
    }

    #[test]
    fn journal_of_a_dead_agent_with_a_truncated_line_can_be_continued() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path(), author());
        let a = journal.append("a", netns("a")).unwrap().unwrap();
        let path = folder.path().join("4100-771234.jsonl");
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"change\":{\"seq").unwrap();
        let mut found = Journal::open(&path).unwrap().unwrap();
        assert_eq!(keys(found.live()), ["a"]);
        found.mark_undone(a).unwrap();
        assert_eq!(Journal::open(&path).unwrap().unwrap().live(), []);
    }

    #[test]
    fn lease_is_journalled_before_the_first_change() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path(), author());
        let resources = vec![Resource { name: "port:eth1".to_owned(), shared: false }];
        let holding = Holding { lab: "quickstart".to_owned(), resources };
        journal.begin_lease(holding.clone()).unwrap();
        let path = folder.path().join("4100-771234.jsonl");
        assert_eq!(replay(&fs::read_to_string(&path).unwrap()).unwrap().holding, Some(holding));
        journal.remove_if_empty().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn equal_undo_with_an_equal_key_is_stored_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path(), author());
        journal.append("mtu", netns("a")).unwrap();
        journal.append("other", netns("b")).unwrap();
        assert_eq!(journal.append("mtu", netns("a")).unwrap(), None);
        assert_eq!(keys(journal.live()), ["mtu", "other"]);
    }

    #[test]
    fn journal_file_is_removed_when_nothing_is_left_to_undo() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path(), author());
        let a = journal.append("a", netns("a")).unwrap().unwrap();
        journal.remove_if_empty().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        journal.mark_undone(a).unwrap();
        journal.remove_if_empty().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn journal_with_a_long_history_is_compacted() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path(), author());
        journal.append("stays", netns("stays")).unwrap();
        let long = "x".repeat(200_000);
        for _ in 0..20 {
            let sequence = journal.append("goes", netns(&long)).unwrap().unwrap();
            journal.mark_undone(sequence).unwrap();
        }
        let path = folder.path().join("4100-771234.jsonl");
        assert!(fs::metadata(&path).unwrap().len() < 1_500_000);
        assert_eq!(keys(&replay(&fs::read_to_string(&path).unwrap()).unwrap().changes), ["stays"]);
    }
}
