//! `iolab-agent disk`: runs one disk program in a separate process, so that it can be pinned, limited and
//! killed separately. The request is a JSON object on standard input, and the report is a JSON object on
//! standard output; `contract/disk-v1.md` defines both.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use iolab_disk::Request;
use iolab_sys::attach_without_readahead;

use crate::kernel::clock::now_ns;

/// Command-line argument that runs a disk program.
pub const ARGUMENT: &str = "disk";

/// Command-line argument that attaches a loop device to a file.
pub const ATTACH: &str = "attach";

/// Maximum length of a request in bytes; requests of iolab are shorter.
const MOST_BYTES: u64 = 1 << 20;

/// Execute the disk request on standard input.
pub fn serve() -> anyhow::Result<()> {
    let mut text = String::new();
    io::stdin().take(MOST_BYTES).read_to_string(&mut text).context("reading the request")?;
    let request: Request =
        serde_json::from_str(&text).context("reading the request (see contract/disk-v1.md)")?;
    // Write each acknowledgement before the next block is written, because the machine may crash at any time.
    let mut tell = |line: &str| {
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    };
    let report = iolab_disk::run(&request, &now_ns, &mut tell)?;
    tell(&serde_json::to_string(&report)?);
    Ok(())
}

/// Attach a loop device without read-ahead to the file `given`, and print its device node.
pub fn attach(given: Option<OsString>) -> anyhow::Result<()> {
    let file = PathBuf::from(given.context("attaching a loop device takes the path of a file")?);
    let node = attach_without_readahead(&file)
        .with_context(|| format!("attaching a loop device to {}", file.display()))?;
    writeln!(io::stdout(), "{}", node.display()).context("printing the node")
}
