//! Settings of physical interfaces from `ethtool`: versions, coalescing, pause frames.

use std::collections::BTreeMap;

use iolab_protocol::facts::InterfaceFacts;

use crate::facts::patience;
use crate::host::Host;
use crate::programs::spawn::Program;

/// Add the settings from `ethtool` to an interface; without `ethtool`, or without its output, they stay
/// empty.
pub fn read(host: &Host, card: &mut InterfaceFacts) {
    let name = card.name.clone();
    let versions = labelled(&told(host, "-i", &name));
    card.driver_version = filled(&versions, "version");
    card.firmware = filled(&versions, "firmware-version");
    card.coalescing = coalescing(&told(host, "-c", &name));
    card.pause = pause(&told(host, "-a", &name));
}

fn told(host: &Host, what: &str, name: &str) -> String {
    let argv = ["ethtool", what, name].map(str::to_owned).to_vec();
    let program = Program { argv, capture_bytes: 65_536, ..Program::default() };
    host.run(program, patience(host)).map(|ran| ran.child.output().stdout).unwrap_or_default()
}

/// Parse the `label: value` lines.
fn labelled(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(label, value)| (label.trim().to_owned(), value.trim().to_owned())).collect()
}

/// Return a value if it has content; drivers without firmware print an empty value or N/A.
fn filled(values: &BTreeMap<String, String>, label: &str) -> Option<String> {
    values.get(label).filter(|value| !value.is_empty() && *value != "N/A").cloned()
}

/// Parse the output of `ethtool -c`, without unsupported parameters; its line with two adaptive switches
/// becomes two entries.
fn coalescing(text: &str) -> BTreeMap<String, String> {
    let mut found = labelled(text);
    found.retain(|label, value| !label.contains(' ') && value != "n/a" && !value.is_empty());
    let switches = text.lines().find_map(|line| line.strip_prefix("Adaptive RX:"));
    if let Some((receive, transmit)) = switches.and_then(|line| line.split_once("TX:")) {
        for (label, value) in [("adaptive-rx", receive), ("adaptive-tx", transmit)] {
            if matches!(value.trim(), "on" | "off") {
                found.insert(label.to_owned(), value.trim().to_owned());
            }
        }
    }
    found
}

/// Parse the output of `ethtool -a`; the keys of the result are the keywords of `ethtool -A`.
fn pause(text: &str) -> BTreeMap<String, bool> {
    let found = labelled(text);
    let words = [("autoneg", "Autonegotiate"), ("rx", "RX"), ("tx", "TX")];
    let state = |label: &str| found.get(label).map(|value| value == "on");
    words.iter().filter_map(|(word, label)| Some(((*word).to_owned(), state(label)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IXGBE_C: &str =
        "Coalesce parameters for eth0:\nAdaptive RX: on  TX: off\nstats-block-usecs: n/a\n\n\
        rx-usecs: 1\nrx-frames: n/a\ntx-usecs:\t50\n\nCQE mode RX: n/a  TX: n/a\n";

    #[test]
    fn coalescing_settings_that_the_nic_supports_are_parsed() {
        let pairs = [("adaptive-rx", "on"), ("adaptive-tx", "off"), ("rx-usecs", "1"), ("tx-usecs", "50")];
        let expected = pairs.map(|(label, value)| (label.to_owned(), value.to_owned())).into();
        assert_eq!(coalescing(IXGBE_C), expected);
        assert!(coalescing("netlink error: Operation not supported").is_empty());
    }

    #[test]
    fn pause_frame_settings_are_parsed_by_their_ethtool_keywords() {
        let text = "Pause parameters for eth0:\nAutonegotiate:\toff\nRX:\t\ton\nTX:\t\ton\n";
        let expected = [("autoneg", false), ("rx", true), ("tx", true)];
        assert_eq!(pause(text), expected.map(|(word, on)| (word.to_owned(), on)).into());
        assert!(pause("").is_empty());
    }

    #[test]
    fn empty_or_unavailable_versions_are_none() {
        let i40e = labelled(
            "driver: i40e\nversion: 6.1.0\nfirmware-version: 8.30 0x8000a49d\nbus-info: 0000:01:00.0\n",
        );
        assert_eq!(filled(&i40e, "firmware-version").as_deref(), Some("8.30 0x8000a49d"));
        let virtio = labelled("version: 1.0.0\nfirmware-version: \n");
        assert_eq!(filled(&virtio, "firmware-version"), None);
        assert_eq!(filled(&labelled("firmware-version: N/A\n"), "firmware-version"), None);
    }
}
