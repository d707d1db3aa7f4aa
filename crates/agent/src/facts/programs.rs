//! Version line of a program.

use crate::facts::patience;
use crate::host::Host;
use crate::programs::spawn::Program;

/// Return the version line of the program `name`; `None` if it is not installed, empty if it prints no
/// version.
pub fn version(host: &Host, name: &str) -> Option<String> {
    let flags: &[&str] = if BRIEF.contains(&name) { &["-V"] } else { &["--version", "-V"] };
    let mut said = String::new();
    for flag in flags {
        let argv = vec![name.to_owned(), (*flag).to_owned()];
        let program = Program { argv, capture_bytes: 4096, ..Program::default() };
        let ran = host.run(program, patience(host)).ok()?;
        let succeeded = ran.end.ending.exit_status == Some(0);
        version_line(&ran.child.output_beginning(4096), succeeded).clone_into(&mut said);
        if succeeded && !said.is_empty() {
            break;
        }
    }
    Some(said)
}

/// Programs that print their version only with the short option `-V`.
const BRIEF: [&str; 5] = ["ip", "tc", "bridge", "ss", "hdparm"];

/// Return the first line; if the program rejected the option, return the line of its usage text that contains
/// the version, if any.
fn version_line(output: &str, succeeded: bool) -> &str {
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let named = |line: &&str| line.starts_with("Version");
    let of_usage = if succeeded { None } else { lines.clone().find(named) };
    of_usage.or_else(|| lines.next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::version_line;

    const USAGE: &str =
        "bonnie++: invalid option -- 'V'\nusage:\nbonnie++ [-d scratch-dir]\n\nVersion: 2.00a\n";

    #[test]
    fn first_nonempty_line_is_the_version_if_the_program_accepts_the_flag() {
        assert_eq!(version_line("\nfio-3.33\nVersion of others\n", true), "fio-3.33");
    }

    #[test]
    fn version_is_read_from_the_usage_text_if_the_program_refuses_the_flag() {
        assert_eq!(version_line(USAGE, false), "Version: 2.00a");
        assert_eq!(version_line("cat: invalid option -- 'V'\n", false), "cat: invalid option -- 'V'");
        assert_eq!(version_line("", false), "");
    }
}
