//! The state folder: whose journals are there, of the living and of the dead.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context};
use iolab_protocol::{Predecessor, Undo};
use nix::unistd::Uid;

use crate::host::journal::{remove_file_if_there, replay, Author, Holding, Told, DRAFT_EXTENSION, EXTENSION};
use crate::host::leases::conflicts;
use crate::kernel::procfs::{boot_id, stat};

/// The state folder of this user on this host.
pub struct StateFolder {
    /// Its name.
    pub name: PathBuf,
    /// Kept open: in a rootless agent a new `/run` may hide the name.
    handle: File,
}

/// The journal of a dead agent that is not undone.
pub struct Left {
    /// For the greeting.
    pub predecessor: Predecessor,
    /// What it held; none: an older agent, which worked alone.
    pub holding: Option<Holding>,
}

impl StateFolder {
    /// Open the folder, making it if need be.
    pub fn open() -> anyhow::Result<Self> {
        let name = choose(
            std::env::var_os("IOLAB_STATE_DIR"),
            std::env::var_os("XDG_RUNTIME_DIR"),
            Uid::effective(),
        );
        make_private(&name).with_context(|| format!("making the state folder '{}'", name.display()))?;
        // Opened, then judged: no other folder can take its place between the two.
        let handle = File::options()
            .read(true)
            .custom_flags(nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW)
            .open(&name)
            .with_context(|| {
                format!(
                    "opening the state folder '{}', which must be a folder and no symbolic link",
                    name.display()
                )
            })?;
        check_private(&handle.metadata()?, &name)?;
        let journals = Path::new("/proc/self/fd").join(handle.as_raw_fd().to_string()).join("journal");
        make_private(&journals).with_context(|| format!("making '{}/journal'", name.display()))?;
        Ok(Self { name, handle })
    }

    /// Where the journals are.
    pub fn journals(&self) -> PathBuf {
        self.path("journal")
    }

    /// Where scratch folders are.
    pub fn folders(&self) -> PathBuf {
        self.path("f")
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new("/proc/self/fd").join(self.handle.as_raw_fd().to_string()).join(name)
    }

    /// The state folder by a name that leads to no other.
    pub fn here(&self) -> PathBuf {
        self.path(".")
    }

    /// The journals of dead agents that are not undone. Those that have nothing to undo are removed.
    pub fn left(&self) -> io::Result<Vec<Left>> {
        let mut found = Vec::new();
        for (path, text) in self.texts()? {
            match judge(&text) {
                Verdict::Alive(..) => {}
                Verdict::Dirty(left) => found.push(left),
                Verdict::Clean => remove_file_if_there(&path)?,
            }
        }
        found.sort_by_key(|each| (each.predecessor.started_ns, each.predecessor.pid));
        Ok(found)
    }

    /// The living agents that hold leases, but the one of the journal `own`.
    pub fn holders(&self, own: &str) -> io::Result<Vec<(Author, Holding)>> {
        let living = self.texts()?.into_iter().filter_map(|(_, text)| match judge(&text) {
            Verdict::Alive(author, Some(holding)) if author.journal() != own => Some((author, holding)),
            _ => None,
        });
        Ok(living.collect())
    }

    /// All journals that can be read; drafts of the dead are removed.
    fn texts(&self) -> io::Result<Vec<(PathBuf, String)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.journals())? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != EXTENSION) {
                remove_stale_draft(&path)?;
            } else if let Ok(bytes) = fs::read(&path) {
                found.push((path, String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
        Ok(found)
    }
}

impl Left {
    /// Whether it must be undone before an agent may change what is `wanted`.
    pub fn is_in_the_way(&self, wanted: &BTreeMap<String, bool>) -> bool {
        let held = self.holding.as_ref().map(|holding| &holding.resources[..]);
        held.is_none_or(|held| !conflicts(wanted, held).is_empty())
    }
}

/// Make one folder for this user alone; its parent must be there. One that exists is left as it is.
fn make_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Refuse a folder that others can use: in /tmp anybody could have made it before.
fn check_private(seen: &fs::Metadata, name: &Path) -> anyhow::Result<()> {
    let (name, user) = (name.display(), Uid::effective());
    if seen.uid() != user.as_raw() {
        let owner = seen.uid();
        bail!("the state folder '{name}' belongs to user {owner}; it must belong to user {user}: remove it or set IOLAB_STATE_DIR to another");
    }
    if seen.mode() & 0o077 != 0 {
        let mode = seen.mode() & 0o7777;
        bail!("the state folder '{name}' is open to other users (mode {mode:04o}); close it with: chmod 700 '{name}'");
    }
    Ok(())
}

/// Remove the draft of a journal whose agent died while it wrote it.
fn remove_stale_draft(path: &Path) -> io::Result<()> {
    if path.extension().is_some_and(|extension| extension == DRAFT_EXTENSION) && !is_draft_of_living(path) {
        remove_file_if_there(path)?;
    }
    Ok(())
}

/// Whether the agent a draft is named after is alive.
fn is_draft_of_living(path: &Path) -> bool {
    let told = path.file_stem().and_then(|stem| stem.to_str()?.split_once('-'));
    let author = told.and_then(|(pid, ticks)| Some((pid.parse().ok()?, ticks.parse().ok()?)));
    author.is_some_and(|(pid, start_ticks)| is_alive(pid, start_ticks))
}

enum Verdict {
    Alive(Author, Option<Holding>),
    Clean,
    Dirty(Left),
}

fn judge(text: &str) -> Verdict {
    let Some(Told { author, holding, changes }) = replay(text) else { return Verdict::Clean };
    if author.boot_id != boot_id() {
        return Verdict::Clean;
    }
    if is_alive(author.pid, author.start_ticks) {
        return Verdict::Alive(author, holding);
    }
    let entries = changes.iter().filter(|change| outlives(&author, &change.undo)).count();
    if entries == 0 {
        return Verdict::Clean;
    }
    let predecessor =
        Predecessor { journal: author.journal(), pid: author.pid, started_ns: author.started_ns, entries };
    Verdict::Dirty(Left { predecessor, holding })
}

/// Whether a change is still there after its agent has died: what a rootless agent made is gone, except processes and files on a disk,
/// which only `rm` takes away.
pub fn outlives(author: &Author, undo: &Undo) -> bool {
    let lasts = match undo {
        Undo::Process { .. } => true,
        Undo::Command { argv, .. } => argv.first().is_some_and(|program| program == "rm"),
        Undo::Write { .. } | Undo::Netns { .. } | Undo::Folder { .. } => false,
    };
    lasts || !author.rootless
}

/// Whether a process is there still, and no other with its number.
pub fn is_alive(pid: u32, start_ticks: u64) -> bool {
    stat(pid).is_some_and(|seen| seen.start_ticks == start_ticks && !seen.ended)
}

fn choose(given: Option<std::ffi::OsString>, runtime: Option<std::ffi::OsString>, user: Uid) -> PathBuf {
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        return given.into();
    }
    if user.is_root() {
        return "/run/iolab".into();
    }
    match runtime.filter(|runtime| Path::new(runtime).is_dir()) {
        Some(runtime) => Path::new(&runtime).join("iolab"),
        None => format!("/tmp/iolab-{user}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_given_one_else_the_systems_else_the_users() {
        let (root, user) = (Uid::from_raw(0), Uid::from_raw(1000));
        assert_eq!(choose(Some("/x".into()), Some("/tmp".into()), root), Path::new("/x"));
        assert_eq!(choose(None, Some("/tmp".into()), root), Path::new("/run/iolab"));
        assert_eq!(choose(None, Some("/tmp".into()), user), Path::new("/tmp/iolab"));
        assert_eq!(choose(None, Some("/no/such/folder".into()), user), Path::new("/tmp/iolab-1000"));
        assert_eq!(choose(None, None, user), Path::new("/tmp/iolab-1000"));
    }

    #[test]
    fn of_what_a_dead_rootless_agent_made_processes_and_files_on_disks_are_left() {
        let author =
            |rootless| Author { pid: 1, start_ticks: 1, started_ns: 1, boot_id: "b".to_owned(), rootless };
        let command =
            |program: &str| Undo::Command { argv: vec![program.to_owned(), "x".to_owned()], netns: None };
        for lasting in [command("rm"), Undo::Process { pid: 2, start_ticks: 2 }] {
            assert!(outlives(&author(true), &lasting));
        }
        for gone in [command("ip"), Undo::Netns { name: "n".to_owned() }] {
            assert!(!outlives(&author(true), &gone) && outlives(&author(false), &gone));
        }
    }
}
