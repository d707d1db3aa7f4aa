//! What interfaces leave to their hardware, as `ethtool` tells it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::facts::patience;
use crate::host::Host;
use crate::programs::spawn::Program;

/// Whether an interface has a device behind it; those made of software alone are labs and their like.
pub fn has_device(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).join("device").exists()
}

/// The features of interface `name` and whether each is active; none where `ethtool` is not installed or does not tell.
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
    fn the_active_value_of_each_feature_is_kept() {
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
    fn words_that_are_no_json_tell_nothing() {
        assert_eq!(parse("Cannot get device feature names: No such device"), None);
    }
}
