//! `iolab-agent roundtrip REQUEST`: runs one end of a round-trip measurement in a separate process, so that this end
//! can be pinned, measured and killed separately. The request is a JSON object, and the report is the last line of
//! standard output; `contract/roundtrip-v1.md` defines both.

use std::io::{self, Write};

use anyhow::Context;
use iolab_roundtrip::{Report, Request};

/// Command-line argument that runs one end of a round-trip measurement.
pub const ARGUMENT: &str = "roundtrip";

/// Execute the request for one end of a round-trip measurement.
pub fn serve(request: Option<&str>) -> anyhow::Result<()> {
    let doing = "reading the request (see contract/roundtrip-v1.md)";
    let request: Request = serde_json::from_str(request.unwrap_or_default()).context(doing)?;
    let report = iolab_roundtrip::run(&request, &|| tell(READY))?;
    if !matches!(report, Report::Served) {
        tell(&serde_json::to_string(&report)?);
    }
    Ok(())
}

/// Line that a server writes as soon as it accepts requests.
const READY: &str = "ready";

fn tell(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
