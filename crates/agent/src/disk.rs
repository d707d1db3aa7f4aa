//! `iolab-agent disk`: one disk program in a process of its own, so that it can be pinned, limited and ended by itself.
//! The request is a JSON object on standard input, the report one on standard output; `contract/disk-v1.md` has both.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use iolab_disk::Request;
use iolab_sys::attach_without_readahead;

use crate::kernel::clock::now_ns;

/// What asks for it on the command line.
pub const ARGUMENT: &str = "disk";

/// What asks on the command line for a loop device on a file.
pub const ATTACH: &str = "attach";

/// The longest request that is read; iolab sends none as long (bytes).
const MOST_BYTES: u64 = 1 << 20;

/// Carries the request out.
pub fn serve() -> anyhow::Result<()> {
    let mut text = String::new();
    io::stdin().take(MOST_BYTES).read_to_string(&mut text).context("reading the request")?;
    let request: Request =
        serde_json::from_str(&text).context("reading the request (see contract/disk-v1.md)")?;
    // Each acknowledgement must be out before the next block is written: the machine may be gone then.
    let mut tell = |line: &str| {
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    };
    let report = iolab_disk::run(&request, &now_ns, &mut tell)?;
    tell(&serde_json::to_string(&report)?);
    Ok(())
}

/// Attaches a loop device that reads nothing ahead to the file `given`, and prints its node.
pub fn attach(given: Option<OsString>) -> anyhow::Result<()> {
    let file = PathBuf::from(given.context("attaching a loop device takes the path of a file")?);
    let node = attach_without_readahead(&file)
        .with_context(|| format!("attaching a loop device to {}", file.display()))?;
    writeln!(io::stdout(), "{}", node.display()).context("printing the node")
}
