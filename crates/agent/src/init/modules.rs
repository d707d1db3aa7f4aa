//! Kernel modules: those that a list names, in its order, and those that the machine's hardware asks for.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::system::finit_module;

use crate::log;
use crate::programs::spawn::search_path;

/// Load the modules of the list, if there is one. One that cannot be loaded is reported; the next may not need it.
pub fn load_listed() {
    let Ok(text) = fs::read_to_string(LIST) else { return };
    for (path, parameters) in parse_list(&text) {
        match load(&path, &parameters) {
            // Built in, named twice, or for a machine of another kind.
            Ok(()) | Err(rustix::io::Errno::EXIST | rustix::io::Errno::NODEV) => {}
            Err(errno) => log(&format!("loading module '{}': {}", path.display(), io::Error::from(errno))),
        }
    }
}

/// The paths and parameters in the text of a list.
fn parse_list(text: &str) -> Vec<(PathBuf, String)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let words = lines
        .filter(|line| !line.is_empty())
        .map(|line| line.split_once(char::is_whitespace).unwrap_or((line, "")));
    words
        .map(|(path, parameters)| (Path::new(LIST_FOLDER).join(path), parameters.trim().to_owned()))
        .collect()
}

fn load(path: &Path, parameters: &str) -> rustix::io::Result<()> {
    let file = File::open(path)
        .map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))?;
    let parameters = CString::new(parameters).map_err(|_| rustix::io::Errno::INVAL)?;
    finit_module(file, &parameters, 0)
}

/// Load what the hardware asks for, and `others`, by one run of `modprobe`; a machine without that program is complete as it is.
pub fn load_for_hardware(others: &[&str]) {
    let mut wanted: BTreeSet<String> = others.iter().map(|&name| name.to_owned()).collect();
    gather_aliases(Path::new("/sys/devices"), &mut wanted);
    let mut command = Command::new("modprobe");
    command.args(["-a", "-q"]).args(&wanted).env("PATH", search_path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = match command.spawn() {
        Ok(process) => process,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return log(&format!("running modprobe: {error}")),
    };
    let deadline = Instant::now() + MODPROBE_LIMIT;
    // Its exit status tells only that some alias has no module, which is always so.
    while matches!(process.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            log(&format!(
                "running modprobe: it does not end within {} s; going on",
                MODPROBE_LIMIT.as_secs()
            ));
            return;
        }
        // A wait with a limit: the standard library has none for a child.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The texts of all files `modalias` below `folder`, which no symbolic link leads out of.
fn gather_aliases(folder: &Path, aliases: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            gather_aliases(&entry.path(), aliases);
        } else if kind.is_file() && entry.file_name() == "modalias" {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            aliases.extend(text.lines().filter(|alias| is_wanted(alias)).map(str::to_owned));
        }
    }
}

/// Whether a device is of those a machine is given: cards and disks. What the board and the CPU offer besides (crypto, KVM, bus
/// monitors) takes longer to load under emulation than all the rest, and is loaded by whoever needs it.
fn is_wanted(alias: &str) -> bool {
    const BRIDGE: &str = "bc06";
    const BUS_CONTROLLER: &str = "bc0Csc05";
    match alias.split_once(':') {
        Some(("pci", device)) => !device.contains(BRIDGE) && !device.contains(BUS_CONTROLLER),
        Some((bus, _)) => ["virtio", "xen", "usb", "vmbus"].contains(&bus),
        None => false,
    }
}

const LIST: &str = "/iolab/modules.list";
const LIST_FOLDER: &str = "/iolab";
const MODPROBE_LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_and_disks_are_wanted_and_the_boards_own_devices_are_not() {
        let card = "pci:v00001AF4d00001000sv00001AF4sd00000001bc02sc00i00";
        for wanted in [card, "virtio:d00000001v00001AF4", "xen:vif"] {
            assert!(is_wanted(wanted));
        }
        let bridge = "pci:v00008086d00002918sv00001AF4sd00001100bc06sc01i00";
        let monitor = "pci:v00008086d00002930sv00001AF4sd00001100bc0Csc05i00";
        for unwanted in
            [bridge, monitor, "cpu:type:x86,ven0002fam000Fmod006B", "acpi:PNP0103:", "platform:pcspkr", ""]
        {
            assert!(!is_wanted(unwanted));
        }
    }

    #[test]
    fn a_list_has_a_path_and_parameters_on_each_line() {
        let text = "# first\n\n/iolab/modules/virtio.ko\nnet.ko  a=1 b=2 # why\n";
        let expected = [("/iolab/modules/virtio.ko", ""), ("/iolab/net.ko", "a=1 b=2")];
        let expected: Vec<(PathBuf, String)> =
            expected.into_iter().map(|(path, parameters)| (path.into(), parameters.to_owned())).collect();
        assert_eq!(parse_list(text), expected);
    }
}
