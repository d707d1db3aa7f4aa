//! Tests that no input makes the request parser panic, and that a parsed request is written back unchanged.
//!
//! `IOLAB_CASES=1000000 cargo test --release -p iolab-protocol --test robustness` runs a million cases of each property.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

use iolab_protocol::{parse_request, Frame, LineSplitter};
use proptest::prelude::*;

fn cases() -> ProptestConfig {
    let cases = std::env::var("IOLAB_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(5_000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Requests on the contract's page, which the tests damage.
fn seeds() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contract/agent-v1.md");
    let page = std::fs::read_to_string(path).unwrap();
    page.lines().filter(|line| line.starts_with("{\"jsonrpc\"")).map(str::to_owned).collect()
}

#[derive(Debug, Clone)]
enum Damage {
    Replace(u8),
    Insert(u8),
    Remove,
    Cut,
    Double,
}

fn damage() -> impl Strategy<Value = Damage> {
    let telling = prop::sample::select(b"{}[]\",:\\0-9.eE+ntf\x00\xff\xc3 ".to_vec());
    let byte = prop_oneof![telling, any::<u8>()];
    prop_oneof![
        byte.clone().prop_map(Damage::Replace),
        byte.prop_map(Damage::Insert),
        Just(Damage::Remove),
        Just(Damage::Cut),
        Just(Damage::Double),
    ]
}

fn apply(line: &mut Vec<u8>, at: prop::sample::Index, damage: &Damage) {
    if line.is_empty() {
        return;
    }
    let at = at.index(line.len());
    match damage {
        Damage::Replace(byte) => line[at] = *byte,
        Damage::Insert(byte) => line.insert(at, *byte),
        Damage::Remove => drop(line.remove(at)),
        Damage::Cut => line.truncate(at),
        Damage::Double => line.extend_from_within(at..),
    }
}

/// Check that a parsed request is written as a line that is parsed as the same request.
fn reads_back(line: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(request) = parse_request(line) {
        let written = serde_json::to_vec(&request).unwrap();
        let again = parse_request(&written).map(|again| (again.id, again.method.into_owned()));
        prop_assert_eq!(again, Ok((request.id, request.method.into_owned())));
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_bytes_are_read_or_refused(line in prop::collection::vec(any::<u8>(), 0..200)) {
        reads_back(&line)?;
    }

    #[test]
    fn damaged_requests_are_read_or_refused(
        seed in prop::sample::select(seeds()),
        damages in prop::collection::vec((any::<prop::sample::Index>(), damage()), 0..6),
    ) {
        let mut line = seed.into_bytes();
        for (at, damage) in &damages {
            apply(&mut line, *at, damage);
        }
        reads_back(&line)?;
    }

    #[test]
    fn lines_do_not_depend_on_how_the_stream_is_split(
        stream in prop::collection::vec(prop_oneof![3 => 97_u8..100, 1 => Just(b'\n')], 0..60),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let frames = |parts: &[&[u8]]| {
            let (mut splitter, mut frames) = (LineSplitter::new(5), Vec::<Frame>::new());
            parts.iter().for_each(|part| splitter.push(part, |frame| frames.push(frame)));
            frames
        };
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        ends.extend([0, stream.len()]);
        ends.sort_unstable();
        let parts: Vec<&[u8]> = ends.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        prop_assert_eq!(frames(&parts), frames(&[&stream]));
    }
}
