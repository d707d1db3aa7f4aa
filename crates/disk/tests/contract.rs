//! Tests of the contract page, which Rust and Python share: every request on it is read, and its report has the fields
//! of a real report.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

use std::collections::BTreeSet;

use iolab_disk::{run, Data, Request, Thput};
use serde_json::Value;

fn examples() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contract/disk-v1.md");
    let text = std::fs::read_to_string(page).unwrap();
    text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap().trim().to_owned()).collect()
}

#[test]
fn every_request_in_the_contract_is_read_and_unknown_fields_are_refused() {
    let mut programs = BTreeSet::new();
    for example in examples() {
        let mut value: Value = serde_json::from_str(&example).unwrap();
        let Some(program) = value.get("program").map(ToString::to_string) else { continue };
        let request: Request = serde_json::from_str(&example).unwrap();
        let again = serde_json::to_value(&request).unwrap();
        assert_eq!(serde_json::from_value::<Request>(again).unwrap(), request);
        programs.insert(program);
        value["unknown"] = Value::from(1);
        serde_json::from_value::<Request>(value).unwrap_err();
    }
    assert_eq!(programs.len(), 11, "{programs:?}");
}

#[test]
fn report_has_the_fields_defined_in_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let asked = Thput {
        folder: folder.path().into(),
        size_bytes: 4096,
        buffers_bytes: vec![4096],
        data: Data::Defined,
        cache: iolab_disk::Cache::AsLeft,
        behind: Vec::new(),
        direct: false,
    };
    let report = run(&Request::Thput(asked), &|| 0, &mut |_| {}).unwrap();
    let made = serde_json::to_value(report).unwrap();
    let page = examples().into_iter().find(|example| example.contains("\"phases\"")).unwrap();
    let written: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(fields(&made["phases"][1]), fields(&written["phases"][0]));
}

fn fields(value: &Value) -> BTreeSet<String> {
    let Value::Object(fields_of) = value else { return BTreeSet::new() };
    fields_of
        .iter()
        .flat_map(|(name, inner)| {
            fields(inner).into_iter().map(move |one| format!("{name}.{one}")).chain([name.clone()])
        })
        .collect()
}
