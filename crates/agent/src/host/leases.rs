//! Leases on resources of this kernel: each resource has a file in the state folder; the file is locked as long as the
//! holder of the lease lives.
//!
//! The file `lock` is shared by all agents with a lease. An agent without a lease locks it exclusively and
//! has exclusive use of the host.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use iolab_protocol::lease::Resource;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// Name of the resource that stands for all resources of the host.
pub const HOST: &str = "host";

/// Resources that are locked until the value is dropped.
#[derive(Debug, Default)]
pub struct Lease {
    /// Number of the lease, higher than those of all earlier leases on these resources.
    pub number: u64,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    name: String,
    path: PathBuf,
    file: Flock<File>,
    shared: bool,
}

/// Lock all resources or none, in the order of their names. Return the name of a resource that a different
/// agent holds.
///
/// `folder` is the state folder. The function writes nothing to the files.
pub fn lock_all(folder: &Path, wanted: &BTreeMap<String, bool>) -> io::Result<Result<Lease, String>> {
    let mut held = Vec::new();
    for (name, &shared) in wanted {
        match lock_one(&file_of(folder, name)?, shared)? {
            Some((path, file)) => held.push(Held { name: name.clone(), path, file, shared }),
            None => return Ok(Err(name.clone())),
        }
    }
    Ok(Ok(Lease { number: 0, held }))
}

impl Lease {
    /// Raise the lease number of all exclusive resources.
    pub fn begin(&mut self) -> io::Result<()> {
        self.number = 1 + self.held.iter().map(|one| number_in(&one.file)).max().unwrap_or(0);
        for one in self.held.iter().filter(|one| !one.shared) {
            one.file.write_all_at(format!("{:0WIDTH$}\n", self.number).as_bytes(), 0)?;
        }
        Ok(())
    }

    /// Whether the lease includes a resource; an exclusive lock also counts as `shared`.
    pub fn is_of(&self, name: &str, shared: bool) -> bool {
        let is_it = |one: &Held| one.name == name && one.shared <= shared;
        self.held.iter().any(is_it)
    }

    /// Whether the lease is still valid: its files still exist under their paths, and contain its number.
    pub fn is_current(&self) -> bool {
        self.held
            .iter()
            .all(|one| is_at(&one.file, &one.path) && (one.shared || number_in(&one.file) == self.number))
    }
}

/// Merge resources into a map from each name to whether the resource is shared; conflicting requests for one name
/// become exclusive.
pub fn merged<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> BTreeMap<String, bool> {
    let mut merged = BTreeMap::from([(HOST.to_owned(), true)]);
    for one in resources {
        merged.entry(one.name.clone()).and_modify(|shared| *shared &= one.shared).or_insert(one.shared);
    }
    merged
}

/// Return the resources in `others` that conflict with `wanted`.
pub fn conflicts(wanted: &BTreeMap<String, bool>, others: &[Resource]) -> Vec<Resource> {
    let alone = |name: &str| wanted.get(name).is_some_and(|&shared| !shared);
    let clashes = |one: &&Resource| {
        (one.name == HOST && !one.shared)
            || alone(HOST)
            || wanted.get(&one.name).is_some_and(|&shared| !(shared && one.shared))
    };
    others.iter().filter(clashes).cloned().collect()
}

/// Whether the text is a valid name for a resource and its file.
pub fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b":.,+_-@".contains(&byte);
    (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('.')
}

fn file_of(folder: &Path, name: &str) -> io::Result<PathBuf> {
    if name == HOST {
        return Ok(folder.join("lock"));
    }
    let leases = folder.join("leases");
    match DirBuilder::new().mode(0o700).create(&leases) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(leases.join(name)),
    }
}

fn lock_one(path: &Path, shared: bool) -> io::Result<Option<(PathBuf, Flock<File>)>> {
    let how = if shared { FlockArg::LockSharedNonblock } else { FlockArg::LockExclusiveNonblock };
    loop {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(nix::libc::O_NOFOLLOW).open(path)?;
        match Flock::lock(file, how) {
            // If the file was removed in the meantime, its lock excludes no other agent.
            Ok(file) if is_at(&file, path) => return Ok(Some((path.to_owned(), file))),
            Ok(_) => {}
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, errno)) => return Err(errno.into()),
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    matches!((file.metadata(), path.symlink_metadata()), (Ok(open), Ok(there)) if same(&open, &there))
}

fn number_in(file: &File) -> u64 {
    let mut digits = [0; WIDTH];
    let read = file.read_at(&mut digits, 0).unwrap_or(0);
    std::str::from_utf8(&digits[..read]).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Number of digits of a lease number, which is constant so that each write is atomic.
const WIDTH: usize = 20;
const LONGEST_NAME: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> BTreeMap<String, bool> {
        let resource = |word: &str| Resource {
            name: word.trim_start_matches('~').to_owned(),
            shared: word.starts_with('~'),
        };
        merged(&text.split_whitespace().map(resource).collect::<Vec<_>>())
    }

    fn take(folder: &Path, text: &str) -> Result<Lease, String> {
        lock_all(folder, &names(text)).unwrap().map(|mut lease| {
            lease.begin().unwrap();
            lease
        })
    }

    #[test]
    fn disjoint_and_shared_resources_are_leased_concurrently() {
        let folder = tempfile::tempdir().unwrap();
        let first = take(folder.path(), "port:a cpu:1 ~page-cache").unwrap();
        let second = take(folder.path(), "port:b cpu:2 ~page-cache").unwrap();
        assert!(first.is_current() && second.is_current());
        assert_eq!(take(folder.path(), "port:c cpu:1 port:b").unwrap_err(), "cpu:1");
        assert_eq!(take(folder.path(), "page-cache").unwrap_err(), "page-cache");
    }

    #[test]
    fn exclusive_host_lease_excludes_all_other_leases() {
        let folder = tempfile::tempdir().unwrap();
        let some = take(folder.path(), "port:a").unwrap();
        assert_eq!(take(folder.path(), "host").unwrap_err(), "host");
        drop(some);
        let alone = take(folder.path(), "host").unwrap();
        assert_eq!(take(folder.path(), "port:b").unwrap_err(), "host");
        drop(alone);
    }

    #[test]
    fn refused_lease_leaves_no_resource_locked() {
        let folder = tempfile::tempdir().unwrap();
        let last = take(folder.path(), "z").unwrap();
        take(folder.path(), "a b z").unwrap_err();
        take(folder.path(), "a b").unwrap();
        drop(last);
    }

    #[test]
    fn lease_number_of_a_resource_only_increases() {
        let folder = tempfile::tempdir().unwrap();
        let numbers: Vec<u64> =
            ["a", "a b", "b", "b c", "a"].map(|text| take(folder.path(), text).unwrap().number).into();
        assert_eq!(numbers, [1, 2, 3, 4, 3]);
    }

    #[test]
    fn lease_with_a_removed_file_or_a_different_number_is_not_current() {
        let folder = tempfile::tempdir().unwrap();
        let lease = take(folder.path(), "a b").unwrap();
        std::fs::write(folder.path().join("leases/a"), "00000000000000000009\n").unwrap();
        assert!(!lease.is_current());
        let lease = take(folder.path(), "c").unwrap();
        std::fs::remove_file(folder.path().join("leases/c")).unwrap();
        assert!(!lease.is_current());
    }

    #[test]
    fn conflicting_resources_are_named() {
        let others =
            [Resource { name: "a".into(), shared: true }, Resource { name: "b".into(), shared: false }];
        let found =
            |text| conflicts(&names(text), &others).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(found("~a"), [] as [&str; 0]);
        assert_eq!(found("a"), ["a"]);
        assert_eq!(found("~b c"), ["b"]);
        assert_eq!(found("host"), ["a", "b"]);
    }

    #[test]
    fn resource_name_cannot_be_a_path() {
        assert!(is_name("port:eth1.5") && is_name("disk:8:16"));
        assert!(!is_name("a/b") && !is_name("..") && !is_name("") && !is_name(&"x".repeat(200)));
    }
}
