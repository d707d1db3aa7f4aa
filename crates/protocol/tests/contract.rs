//! Every example on the contract's page is a message of this crate, and reads and writes as the same JSON.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

use std::collections::HashMap;

use iolab_protocol::calls::METHODS;
use iolab_protocol::device::{DeviceCounts, DeviceStarted};
use iolab_protocol::facts::Facts;
use iolab_protocol::hello::NotificationLine;
use iolab_protocol::relay::RelayOpened;
use iolab_protocol::results::{
    CommandEnded, Done, FolderMade, JournalEntries, Pong, ProcessEnded, ProcessStarted, Reading, Series,
    SettingOriginal, SettingValue, UndoReport,
};
use iolab_protocol::traffic::{TrafficOpened, TrafficRan};
use iolab_protocol::{parse_request, Notification, Response, Undo, PROTOCOL_VERSION};
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

/// The response `example` to a request for `method`, read as that method's result and written again.
fn rewritten_response(method: &str, example: &str) -> Value {
    let rewrite = match method {
        "agent.ping" => rewritten::<Response<Pong>>,
        "command.run" => rewritten::<Response<CommandEnded>>,
        "process.start" => rewritten::<Response<ProcessStarted>>,
        "process.wait" | "process.stop" => rewritten::<Response<ProcessEnded>>,
        "folder.create" => rewritten::<Response<FolderMade>>,
        "relay.open" => rewritten::<Response<RelayOpened>>,
        "setting.read" => rewritten::<Response<SettingValue>>,
        "setting.write" => rewritten::<Response<SettingOriginal>>,
        "sample.read" => rewritten::<Response<Reading>>,
        "sample.stop" => rewritten::<Response<Series<Reading>>>,
        "traffic.open" => rewritten::<Response<TrafficOpened>>,
        "traffic.run" => rewritten::<Response<TrafficRan>>,
        "device.start" => rewritten::<Response<DeviceStarted>>,
        "device.read" | "device.stop" => rewritten::<Response<DeviceCounts>>,
        "facts.read" => rewritten::<Response<Facts>>,
        "journal.list" => rewritten::<Response<JournalEntries>>,
        "journal.undo" | "machine.power_off" | "agent.exit" => rewritten::<Response<UndoReport>>,
        _ => rewritten::<Response<Done>>,
    };
    rewrite(example)
}

#[test]
fn every_example_reads_and_writes_as_the_same_json() {
    let mut methods = HashMap::new();
    for example in examples() {
        let plain: Value = serde_json::from_str(&example).unwrap();
        let id = plain["id"].as_i64();
        let rewritten = match (plain["method"].as_str(), id) {
            (Some(_), None) => rewritten::<NotificationLine>(&example),
            (Some(method), Some(id)) => {
                methods.insert(id, method.to_owned());
                let request =
                    parse_request(example.as_bytes()).unwrap_or_else(|refusal| panic!("{refusal:?}"));
                serde_json::to_value(request).unwrap()
            }
            (None, _) if plain["error"].is_object() => rewritten::<Response<Done>>(&example),
            (None, _) => rewritten_response(&methods[&id.unwrap()], &example),
        };
        assert_eq!(rewritten, plain);
    }
}

#[test]
fn every_method_has_an_example_and_every_example_a_method() {
    let mut seen: Vec<String> = Vec::new();
    for example in examples() {
        let plain: Value = serde_json::from_str(&example).unwrap();
        seen.extend(plain["method"].as_str().filter(|_| plain["id"].is_i64()).map(str::to_owned));
    }
    seen.sort_unstable();
    seen.dedup();
    let mut methods = METHODS.map(str::to_owned).to_vec();
    methods.sort_unstable();
    assert_eq!(seen, methods);
}

#[test]
fn the_undo_forms_in_the_text_are_undos() {
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
fn the_first_line_on_the_page_is_of_this_version() {
    let hello: NotificationLine =
        serde_json::from_str(examples().iter().find(|example| example.contains("\"hello\"")).unwrap())
            .unwrap();
    let Notification::Hello(hello) = hello.notification else { panic!("no hello") };
    assert_eq!(hello.protocol, PROTOCOL_VERSION);
}
