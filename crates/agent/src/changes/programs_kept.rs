//! Keeps the XDP programs that ports replace, so that they can be restored even if this agent is killed. Each
//! program is pinned in a BPF file system in the state folder, which is mounted as long as a program is kept.
//! An undo command in the journal attaches the program again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use iolab_protocol::traffic::{PathChoice, PortParams};
use iolab_protocol::Undo;
use iolab_sys::bpf::keep_program;
use iolab_traffic::attached_program;
use nix::mount::{mount, MsFlags};
use nix::sys::statfs::{statfs, FsType};

use crate::changes::undo::undo_changes;
use crate::host::Host;
use crate::kernel::faults::{refused, refused_errno, Answer};
use crate::kernel::netns;
use crate::kernel::sync::lock;

/// File system type that statfs(2) reports for a BPF file system.
const BPF_MAGIC: FsType = FsType(0xcafe_4a11);
const MOUNTED: &str = "programs";

/// Lock that protects the BPF file system, which all requests share.
static KEEPING: Mutex<()> = Mutex::new(());

/// Before `port` replaces a program, pin the program and record its undo in the journal. Return the sequence
/// number of the entry, if any.
pub fn keep(host: &Host, port: &PortParams) -> Answer<Option<u64>> {
    if !port.force || port.path == PathChoice::AfPacket {
        return Ok(None);
    }
    let netns = port.netns.as_deref();
    // If the interface has a problem, the later opening of the port reports it.
    let present = netns::within(netns, || Ok(attached_program(&port.interface)))?;
    let Some((program_id, native)) = present else { return Ok(None) };
    let _one_at_a_time = lock(&KEEPING);
    let folder = mounted(host)?;
    let pinned = folder.join(program_id.to_string());
    if !pinned.exists() {
        keep_program(program_id, &pinned)
            .map_err(|error| refused("keeping the XDP program of interface", &port.interface, &error))?;
    }
    let mode = if native { "xdpdrv" } else { "xdpgeneric" };
    let text = pinned.to_string_lossy();
    let words = ["ip", "-force", "link", "set", "dev", &port.interface, mode, "pinned", &text];
    let undo = Undo::Command { argv: words.map(str::to_owned).into(), netns: port.netns.clone() };
    host.record(&key(port), undo)
}

/// Mark the entries at `sequences` as undone, because the ports did not replace the programs or have restored
/// them.
pub fn forget(host: &Host, sequences: &[u64]) -> Answer<()> {
    let _one_at_a_time = lock(&KEEPING);
    for &sequence in sequences {
        host.mark_undone(sequence)?;
    }
    unmount_if_unused(host);
    Ok(())
}

/// Restore the programs that `ports` replaced, if the ports have not already done so.
pub fn put_back<'a>(host: &Host, ports: impl Iterator<Item = &'a PortParams>) {
    let keys: Vec<String> = ports.filter(|port| port.force).map(key).collect();
    if keys.is_empty() {
        return;
    }
    let _one_at_a_time = lock(&KEEPING);
    // A failed undo stays in the journal and is reported when the journal is undone.
    undo_changes(host, &host.journal, Some(&keys));
    unmount_if_unused(host);
}

fn key(port: &PortParams) -> String {
    format!("program:{}:{}", port.netns.as_deref().unwrap_or_default(), port.interface)
}

/// Return the folder of the BPF file system, and mount the file system if necessary.
fn mounted(host: &Host) -> Answer<PathBuf> {
    let folder = host.state.name.join("bpf");
    let name = folder.to_string_lossy().into_owned();
    if is_mounted(&folder) {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).map_err(|error| refused("making folder", &name, &error))?;
    let undo = Undo::Command { argv: vec!["umount".to_owned(), name.clone()], netns: None };
    let sequence = host.record(MOUNTED, undo)?;
    if let Err(errno) = mount(Some("bpf"), &folder, Some("bpf"), MsFlags::empty(), Some("mode=0700")) {
        host.mark_undone(sequence)?;
        return Err(refused_errno(
            "mounting a BPF file system, which keeps a replaced program, at",
            &name,
            errno,
        ));
    }
    Ok(folder)
}

fn is_mounted(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|found| found.filesystem_type() == BPF_MAGIC)
}

/// Unmount the BPF file system if no program is kept. The caller must hold `KEEPING`.
fn unmount_if_unused(host: &Host) {
    let used = lock(&host.journal).live().iter().any(|change| change.undo_key.starts_with("program:"));
    if !used {
        undo_changes(host, &host.journal, Some(&[MOUNTED.to_owned()]));
    }
}
