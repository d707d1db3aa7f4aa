//! Offloads of interfaces, from `ethtool`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::facts::patience;
use crate::host::Host;
use crate::programs::spawn::Program;

/// Whether an interface belongs to a physical or virtual device; interfaces without a device exist only in
/// software, such as those of labs.
pub fn has_device(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).join("device").exists()
}

/// Return the features of the interface `name` and whether each is active; empty without `ethtool` or without
/// its output.
pub fn read(host: &Host, name: &str) -> BTreeMap<String, bool> {
    let argv = ["ethtool", "--json", "-k", name].map(str::to_owned).to_vec();
    let program = Program { argv, capture_bytes: 65_536, ..Program::default() };
    let told = host.run(program, patience(host)).map(|ran| ran.child.output().stdout);
    told.ok().and_then(|told| parse(&told)).unwrap_or_default()
}

fn parse(told: &str) -> Option<BTreeMap<String, bool>> {
    let told: Value = serde_json::from_str(told).ok()?;
    let features = told.get(0)?.as_object()?.iter();
    let active = |(name, feature): (&String, &Value)| Some((name.clone(), feature.get("active")?.as_bool()?));
    Some(features.filter_map(active).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_value_of_each_offload_is_kept() {
        let told = r#"[ { "ifname": "eth0",
            "tx-checksumming": { "active": true, "fixed": null, "requested": null },
            "tx-checksum-ipv4": { "active": false, "fixed": true, "requested": true } } ]"#;
        let seen = parse(told).unwrap();
        assert_eq!(
            seen,
            [("tx-checksum-ipv4".to_owned(), false), ("tx-checksumming".to_owned(), true)].into()
        );
    }

    #[test]
    fn output_that_is_not_json_gives_no_offloads() {
        assert_eq!(parse("Cannot get device feature names: No such device"), None);
    }
}
