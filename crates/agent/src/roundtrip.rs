//! `iolab-agent roundtrip REQUEST`: one end of round trips in a process of its own, so that it can be pinned, watched and ended
//! by itself. The request is a JSON object, the report the last line of standard output; `contract/roundtrip-v1.md` has both.

use std::io::{self, Write};

use anyhow::Context;
use iolab_roundtrip::{Report, Request};

/// What asks for it on the command line.
pub const ARGUMENT: &str = "roundtrip";

/// Carries the request out.
pub fn serve(request: Option<&str>) -> anyhow::Result<()> {
    let doing = "reading the request (see contract/roundtrip-v1.md)";
    let request: Request = serde_json::from_str(request.unwrap_or_default()).context(doing)?;
    let report = iolab_roundtrip::run(&request, &|| tell(READY))?;
    if !matches!(report, Report::Served) {
        tell(&serde_json::to_string(&report)?);
    }
    Ok(())
}

/// What a server writes when it can be asked.
const READY: &str = "ready";

fn tell(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
