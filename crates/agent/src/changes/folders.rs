//! Verbs `folder.create` and `folder.delete`, which work only on scratch folders in the state folder.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use iolab_protocol::calls::FolderName;
use iolab_protocol::results::{Done, FolderMade};
use iolab_protocol::{ErrorObject, Undo};

use crate::host::Host;
use crate::kernel::faults::{refused, Answer};
use crate::kernel::sync::lock;
use crate::verbs::{verb, Verb};

/// Return the verbs for folders.
pub fn verbs() -> [Verb; 2] {
    [
        verb("folder.create", |host, params| create(host, &params)),
        verb("folder.delete", |host, params| delete(host, &params)),
    ]
}

/// Answer `folder.create`.
pub fn create(host: &Host, params: &FolderName) -> Answer<FolderMade> {
    let name = params.name.as_str();
    check_name(name)?;
    let _change = host.may_change()?;
    let undo_key = format!("folder:{name}");
    let shown = shown_folder(host).join(name).to_string_lossy().into_owned();
    // With two concurrent requests for one name, each would mistake the other's journal entry for its own.
    if entry(host, name).is_some() || !lock(&host.making).insert(undo_key.clone()) {
        let message = format!("making folder '{name}': it exists already");
        return Err(ErrorObject::refused(message, Some(nix::libc::EEXIST), shown));
    }
    let made = make(host, name, &undo_key);
    lock(&host.making).remove(&undo_key);
    made.map(|()| FolderMade { path: shown })
}

fn make(host: &Host, name: &str, undo_key: &str) -> Answer<()> {
    let sequence = host.record(undo_key, Undo::Folder { name: name.to_owned() })?;
    let path = folder(host).join(name);
    // No other agent uses this folder and no journal has an entry for it, so an existing folder with this
    // name is from an earlier boot.
    let made =
        remove_tree(&path).and_then(|()| make_private(&folder(host))).and_then(|()| make_private(&path));
    made.map_err(|error| {
        // The folder was not created. If its journal entry cannot be marked as undone either, the undo is harmless.
        let _ = host.mark_undone(sequence);
        refused("making folder", &shown_folder(host).join(name).to_string_lossy(), &error)
    })
}

/// Answer `folder.delete`.
pub fn delete(host: &Host, params: &FolderName) -> Answer<Done> {
    let name = params.name.as_str();
    check_name(name)?;
    let _change = host.may_change()?;
    let Some(sequence) = entry(host, name) else {
        let message =
            format!("removing folder '{name}': this agent did not make it, and removes only those it made");
        return Err(ErrorObject::unknown(message, name));
    };
    remove(host, name).map_err(|reason| ErrorObject::refused(reason, None, name))?;
    host.mark_undone(sequence)?;
    Ok(Done {})
}

/// Remove a scratch folder and its contents; a missing folder counts as removed.
pub fn remove(host: &Host, name: &str) -> Result<(), String> {
    // Check the name again, because a manipulated journal could contain a path that leads outside the folder.
    check_name(name).map_err(|error| error.message)?;
    remove_tree(&folder(host).join(name)).map_err(|error| format!("removing folder '{name}': {error}"))
}

/// Refuse an invalid folder name.
pub fn check_name(name: &str) -> Answer<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let fits = (1..=LONGEST_NAME_BYTES).contains(&name.len()) && name.bytes().all(plain);
    if fits && !name.starts_with(['-', '.']) {
        return Ok(());
    }
    let message = format!("a folder's name is 1 to {LONGEST_NAME_BYTES} letters, digits, '-', '_', '.', and begins with none of the marks '-' and '.'");
    Err(ErrorObject::params(message, name))
}

fn entry(host: &Host, name: &str) -> Option<u64> {
    let is_it = |undo: &Undo| matches!(undo, Undo::Folder { name: each } if each == name);
    lock(&host.journal).live().iter().find(|change| is_it(&change.undo)).map(|change| change.sequence)
}

/// Return the parent of the scratch folders, as a path that stays valid if the state folder is replaced.
fn folder(host: &Host) -> PathBuf {
    if host.author.rootless {
        return shown_folder(host);
    }
    host.state.folders()
}

/// Return the parent of the scratch folders as a path for programs. The new `/run` of a rootless agent may
/// hide the state folder, so a rootless agent uses a different parent.
fn shown_folder(host: &Host) -> PathBuf {
    if host.author.rootless {
        return Path::new(ROOTLESS_FOLDER).into();
    }
    let state = std::path::absolute(&host.state.name).unwrap_or_else(|_| host.state.name.clone());
    state.join("f")
}

fn make_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn remove_tree(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Parent of the scratch folders in the mount namespace of a rootless agent.
const ROOTLESS_FOLDER: &str = "/run/f";
/// Maximum length of a folder name in bytes. A socket path has at most 107 bytes, and the file name of the
/// socket needs some of them.
const LONGEST_NAME_BYTES: usize = 40;
