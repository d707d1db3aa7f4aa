//! The state folder, with the journals of running and dead agents.

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
    /// Path of the folder.
    pub name: PathBuf,
    /// Open descriptor of the folder: the new `/run` of a rootless agent may hide the path.
    handle: File,
}

/// The journal of a dead agent whose changes have not been undone.
pub struct Left {
    /// Description for the greeting.
    pub predecessor: Predecessor,
    /// Resources that the agent held; `None`: an older agent, which had exclusive use of the host.
    pub holding: Option<Holding>,
}

impl StateFolder {
    /// Open the folder, and create it if necessary.
    pub fn open() -> anyhow::Result<Self> {
        let name = choose(
            std::env::var_os("IOLAB_STATE_DIR"),
            std::env::var_os("XDG_RUNTIME_DIR"),
            Uid::effective(),
        );
        make_private(&name).with_context(|| format!("making the state folder '{}'", name.display()))?;
        // The checks use the open descriptor, so the folder cannot be replaced between opening and checking.
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

    /// Return the folder of the journals.
    pub fn journals(&self) -> PathBuf {
        self.path("journal")
    }

    /// Return the parent of the scratch folders.
    pub fn folders(&self) -> PathBuf {
        self.path("f")
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new("/proc/self/fd").join(self.handle.as_raw_fd().to_string()).join(name)
    }

    /// Return a path of the state folder that stays valid if the folder is replaced.
    pub fn here(&self) -> PathBuf {
        self.path(".")
    }

    /// Return the journals of dead agents with changes that have not been undone. Remove the journals of dead agents
    /// without such changes.
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

    /// Return the running agents that hold leases, except the agent of the journal `own`.
    pub fn holders(&self, own: &str) -> io::Result<Vec<(Author, Holding)>> {
        let living = self.texts()?.into_iter().filter_map(|(_, text)| match judge(&text) {
            Verdict::Alive(author, Some(holding)) if author.journal() != own => Some((author, holding)),
            _ => None,
        });
        Ok(living.collect())
    }

    /// Return all readable journals; remove drafts of dead agents.
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
    /// Whether the journal must be undone before an agent may change the `wanted` resources.
    pub fn is_in_the_way(&self, wanted: &BTreeMap<String, bool>) -> bool {
        let held = self.holding.as_ref().map(|holding| &holding.resources[..]);
        held.is_none_or(|held| !conflicts(wanted, held).is_empty())
    }
}

/// Create a folder for this user alone; its parent must exist. An existing folder stays unchanged.
fn make_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Refuse a folder that other users can access: in /tmp any user could have created the folder.
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

/// Remove the draft of a journal whose agent died while it wrote the draft.
fn remove_stale_draft(path: &Path) -> io::Result<()> {
    if path.extension().is_some_and(|extension| extension == DRAFT_EXTENSION) && !is_draft_of_living(path) {
        remove_file_if_there(path)?;
    }
    Ok(())
}

/// Whether the agent in a draft's file name is running.
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
    let predecessor = Predecessor {
        journal: author.journal(),
        pid: author.pid,
        started_ns: author.started_ns,
        entries,
        lab: holding.as_ref().map(|holding| holding.lab.clone()).unwrap_or_default(),
    };
    Verdict::Dirty(Left { predecessor, holding })
}

/// Whether a change still exists after the death of its agent. Of the changes of a rootless agent, only processes still
/// exist, and files on a disk (their undo command is `rm`).
pub fn outlives(author: &Author, undo: &Undo) -> bool {
    let lasts = match undo {
        Undo::Process { .. } => true,
        Undo::Command { argv, .. } => argv.first().is_some_and(|program| program == "rm"),
        Undo::Write { .. } | Undo::Netns { .. } | Undo::Folder { .. } => false,
    };
    lasts || !author.rootless
}

/// Whether a process still runs and its ID has not been reused.
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
    fn state_folder_is_the_given_one_or_else_the_systems_or_the_users() {
        let (root, user) = (Uid::from_raw(0), Uid::from_raw(1000));
        assert_eq!(choose(Some("/x".into()), Some("/tmp".into()), root), Path::new("/x"));
        assert_eq!(choose(None, Some("/tmp".into()), root), Path::new("/run/iolab"));
        assert_eq!(choose(None, Some("/tmp".into()), user), Path::new("/tmp/iolab"));
        assert_eq!(choose(None, Some("/no/such/folder".into()), user), Path::new("/tmp/iolab-1000"));
        assert_eq!(choose(None, None, user), Path::new("/tmp/iolab-1000"));
    }

    #[test]
    fn only_processes_and_disk_files_outlive_a_rootless_agent() {
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
