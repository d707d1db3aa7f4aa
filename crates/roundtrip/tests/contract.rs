//! Tests of the contract page, which Rust and Python share: every request and report on it is read.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

use std::collections::BTreeSet;

use iolab_roundtrip::{ProbesReport, Request, TransactionsReport};
use serde_json::Value;

#[test]
fn every_example_in_the_contract_is_read_and_unknown_fields_are_refused() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contract/roundtrip-v1.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut programs = BTreeSet::new();
    let mut reports = 0;
    for example in text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        let mut value: Value = serde_json::from_str(example).unwrap();
        let Some(program) = value.get("program").map(ToString::to_string) else {
            let read = serde_json::from_value::<ProbesReport>(value.clone()).is_ok()
                || serde_json::from_value::<TransactionsReport>(value).is_ok();
            assert!(read, "{example}");
            reports += 1;
            continue;
        };
        let request: Request = serde_json::from_str(example).unwrap();
        let again = serde_json::to_value(&request).unwrap();
        assert_eq!(serde_json::from_value::<Request>(again).unwrap(), request);
        programs.insert(program);
        value["unknown"] = Value::from(1);
        serde_json::from_value::<Request>(value).unwrap_err();
    }
    assert_eq!((programs.len(), reports), (3, 2), "{programs:?}");
}
