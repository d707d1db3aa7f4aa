//! Daemons that disturb measurements: they move interrupts to different CPUs, or configure interfaces of the
//! lab.

use std::fs;
use std::path::Path;

/// Names of the detected daemons as in `/proc/PID/comm`, which has at most 15 characters.
const KNOWN: [&str; 8] = [
    "irqbalance",
    "NetworkManager",
    "systemd-network",
    "connmand",
    "dhclient",
    "dhcpcd",
    "tuned",
    "power-profiles-",
];

/// Return the names of the running daemons, each once.
pub fn running(proc: &Path) -> Vec<String> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let processes = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let names: Vec<String> =
        processes.filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok()).collect();
    let known = KNOWN.iter().filter(|name| names.iter().any(|each| each.trim() == **name));
    known.map(|name| (*name).to_owned()).collect()
}

/// Return the daemon that manages an interface, from the state files of `NetworkManager` and systemd-networkd
/// in `/run`.
pub fn manager(root: &Path, interface: &str) -> Option<String> {
    let number = fs::read_to_string(root.join("sys/class/net").join(interface).join("ifindex")).ok()?;
    let state = |place: &str, line: &str| {
        let text = fs::read_to_string(root.join(place).join(number.trim())).unwrap_or_default();
        text.lines().find_map(|each| each.strip_prefix(line).map(|value| value.trim().to_owned()))
    };
    if state("run/NetworkManager/devices", "managed=").as_deref() == Some("true") {
        return Some("NetworkManager".to_owned());
    }
    let managed = state("run/systemd/netif/links", "ADMIN_STATE=");
    managed.filter(|state| state != "unmanaged").map(|_| "systemd-networkd".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let place = root.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    #[test]
    fn disturbing_daemons_are_found_by_process_name() {
        let root = tempfile::tempdir().unwrap();
        for (path, name) in [
            ("7/comm", "irqbalance\n"),
            ("9/comm", "bash\n"),
            ("80/comm", "NetworkManager\n"),
            ("x/comm", "tuned\n"),
        ] {
            write(root.path(), path, name);
        }
        assert_eq!(running(root.path()), ["irqbalance", "NetworkManager"]);
    }

    #[test]
    fn daemon_is_reported_for_a_managed_interface_and_not_for_an_unmanaged_one() {
        let root = tempfile::tempdir().unwrap();
        for (name, number) in [("eth0", "2"), ("eth1", "3"), ("eth2", "4"), ("eth3", "5")] {
            write(root.path(), &format!("sys/class/net/{name}/ifindex"), &format!("{number}\n"));
        }
        write(root.path(), "run/NetworkManager/devices/2", "[device]\nmanaged=true\n");
        write(root.path(), "run/NetworkManager/devices/3", "[device]\nmanaged=false\n");
        write(root.path(), "run/systemd/netif/links/4", "ADMIN_STATE=configured\nOPER_STATE=routable\n");
        write(root.path(), "run/systemd/netif/links/5", "ADMIN_STATE=unmanaged\n");
        let seen = ["eth0", "eth1", "eth2", "eth3", "gone"].map(|name| manager(root.path(), name));
        let managers = seen.each_ref().map(Option::as_deref);
        assert_eq!(managers, [Some("NetworkManager"), None, Some("systemd-networkd"), None, None]);
    }
}
