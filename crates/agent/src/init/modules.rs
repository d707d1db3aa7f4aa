//! Loads kernel modules: the modules in a list, in the order of the list, and the modules for the machine's hardware.

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

/// Load the modules of the list, if the list exists. A failure is only logged, because later modules might not depend
/// on the failed module.
pub fn load_listed() {
    let Ok(text) = fs::read_to_string(LIST) else { return };
    for (path, parameters) in parse_list(&text) {
        match load(&path, &parameters) {
            // The module is built in or listed twice, or its hardware does not exist.
            Ok(()) | Err(rustix::io::Errno::EXIST | rustix::io::Errno::NODEV) => {}
            Err(errno) => log(&format!("loading module '{}': {}", path.display(), io::Error::from(errno))),
        }
    }
}

/// Parse the paths and parameters in the text of a list.
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

/// Load the modules for the hardware, and `others`, with one call of `modprobe`; a machine without `modprobe`
/// needs no modules.
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
    // Ignore the exit status: modprobe fails if any alias has no module, and there are always such aliases.
    while matches!(process.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            log(&format!(
                "running modprobe: it does not end within {} s; going on",
                MODPROBE_LIMIT.as_secs()
            ));
            return;
        }
        // A wait with a timeout, which the standard library lacks for child processes.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Collect the contents of all `modalias` files below `folder`, without following symbolic links.
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

/// Whether a device is a NIC or a disk of the machine. Other functions of the board and the CPU (crypto, KVM,
/// bus monitors) load slowly under emulation and are loaded on demand.
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
    fn modules_of_nics_and_disks_are_loaded_and_those_of_board_devices_are_not() {
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
    fn module_list_has_a_path_and_parameters_per_line() {
        let text = "# first\n\n/iolab/modules/virtio.ko\nnet.ko  a=1 b=2 # why\n";
        let expected = [("/iolab/modules/virtio.ko", ""), ("/iolab/net.ko", "a=1 b=2")];
        let expected: Vec<(PathBuf, String)> =
            expected.into_iter().map(|(path, parameters)| (path.into(), parameters.to_owned())).collect();
        assert_eq!(parse_list(text), expected);
    }
}
