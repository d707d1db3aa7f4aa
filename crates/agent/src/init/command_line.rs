//! The agent's options on the kernel's command line. Other options are ignored.

use std::fs;
use std::io;

/// The agent's options on the kernel's command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Block device of the root file system.
    pub root: Option<String>,
    /// Block device of the kernel modules.
    pub modules: Option<String>,
    /// Host name of the machine.
    pub name: Option<String>,
    /// Terminal that serves as the channel, instead of a virtio-serial port.
    pub channel: Option<String>,
}

impl CommandLine {
    /// Read the command line of the running kernel.
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string("/proc/cmdline")?))
    }

    fn parse(text: &str) -> Self {
        let words: Vec<(&str, &str)> = text
            .split_ascii_whitespace()
            .filter_map(|word| word.strip_prefix("iolab.")?.split_once('='))
            .collect();
        let value = |name: &str| {
            words
                .iter()
                .rev()
                .find(|(each, value)| *each == name && !value.is_empty())
                .map(|(_, value)| (*value).to_owned())
        };
        Self {
            root: value("root"),
            modules: value("modules"),
            name: value("name"),
            channel: value("channel"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_options_are_found_on_the_kernel_command_line() {
        let line = CommandLine::parse(
            "console=ttyS0 quiet iolab.root=/dev/vda iolab.name=a iolab.name=dut iolab.channel=\n",
        );
        let expected = CommandLine {
            root: Some("/dev/vda".to_owned()),
            name: Some("dut".to_owned()),
            ..CommandLine::default()
        };
        assert_eq!(line, expected);
    }
}
