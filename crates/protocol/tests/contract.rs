//! Tests of the examples on the contract's page that do not belong to a method: types of this crate read and write
//! these examples as the same JSON. The agent defines and tests the methods.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

use iolab_protocol::hello::NotificationLine;
use iolab_protocol::results::{Done, Reading, Series};
use iolab_protocol::{Notification, Response, Undo, PROTOCOL_VERSION};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contract/agent-v1.md");
    std::fs::read_to_string(path).unwrap()
}

fn examples() -> Vec<String> {
    let page = page();
    let blocks = page.split("```json\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().trim().to_owned()).collect()
}

fn rewritten<T: DeserializeOwned + Serialize>(example: &str) -> Value {
    let typed: T = serde_json::from_str(example).unwrap_or_else(|error| panic!("{error} in {example}"));
    serde_json::to_value(typed).unwrap()
}

#[test]
fn notifications_refusals_and_series_are_read_and_written_as_the_same_json() {
    let mut count = 0;
    for example in examples() {
        let plain: Value = serde_json::from_str(&example).unwrap();
        let rewritten = match (plain["method"].is_string(), plain["id"].is_i64()) {
            (true, false) => rewritten::<NotificationLine>(&example),
            (false, _) if plain["error"].is_object() => rewritten::<Response<Done>>(&example),
            // The agent forwards readings as text.
            (false, _) if plain["result"]["readings"].is_array() => {
                rewritten::<Response<Series<Reading>>>(&example)
            }
            _ => continue,
        };
        count += 1;
        assert_eq!(rewritten, plain);
    }
    assert!(count > 3, "{count} examples");
}

#[test]
fn undo_forms_in_the_contract_text_are_valid() {
    let page = page();
    let forms = page.split('`').filter(|part| {
        part.starts_with("{\"kind\"") && part.contains("\"kind\":\"netns\"")
            || part.starts_with("{\"kind\":\"folder\"")
            || part.starts_with("{\"kind\":\"process\"")
    });
    let mut count = 0;
    for form in forms {
        serde_json::from_str::<Undo>(form).unwrap_or_else(|error| panic!("{error} in {form}"));
        count += 1;
    }
    assert_eq!(count, 3);
}

#[test]
fn greeting_on_the_contract_page_has_the_current_version() {
    let hello: NotificationLine =
        serde_json::from_str(examples().iter().find(|example| example.contains("\"hello\"")).unwrap())
            .unwrap();
    let Notification::Hello(hello) = hello.notification else { panic!("no hello") };
    assert_eq!(hello.protocol, PROTOCOL_VERSION);
}
