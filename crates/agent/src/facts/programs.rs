//! The version line of a program.

use crate::facts::patience;
use crate::host::Host;
use crate::spawn::Program;

/// The first line `name` prints for its version; `None` where it is not installed, empty where it does not tell.
pub fn version(host: &Host, name: &str) -> Option<String> {
    let flags: &[&str] = if BRIEF.contains(&name) { &["-V"] } else { &["--version", "-V"] };
    let mut told = String::new();
    for flag in flags {
        let argv = vec![name.to_owned(), (*flag).to_owned()];
        let program = Program { argv, capture_bytes: 4096, ..Program::default() };
        let ran = host.run(program, patience(host)).ok()?;
        let output = ran.child.output_beginning(4096);
        told = output.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned();
        if ran.end.ending.exit_status == Some(0) && !told.is_empty() {
            break;
        }
    }
    Some(told)
}

/// Programs that know the short flag only.
const BRIEF: [&str; 5] = ["ip", "tc", "bridge", "ss", "hdparm"];
