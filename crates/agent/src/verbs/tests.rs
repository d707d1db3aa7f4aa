//! Tests that the committed schema of all messages is current, that the contract's page has an example of every method,
//! that reading and writing an example yields the same JSON, and that no parameters cause a panic.
//!
//! `IOLAB_RECORD=1 cargo test -p iolab-agent schema` writes the schema (`make protocol` also does this, and writes the
//! files that are generated from the schema). `IOLAB_CASES=1000000 cargo test --release -p iolab-agent verbs` runs a
//! million cases of each property.

use std::collections::{BTreeSet, HashMap};

use iolab_protocol::relay::{Ended, Noise, Received};
use iolab_protocol::{parse_request, ErrorObject, Hello, Refusal, Request, PROTOCOL_VERSION};
use proptest::prelude::*;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{json, Map, Value};

use super::Verb;
use crate::session::methods::all;

/// Traits that all parameter and result types implement.
pub trait Message: DeserializeOwned + Serialize + JsonSchema {}
impl<M: DeserializeOwned + Serialize + JsonSchema> Message for M {}

/// Functions that read and rewrite the parameters and the result of a method, by their types.
pub struct Messages {
    params: fn(&Request<'_>) -> Result<String, Refusal>,
    result: fn(&str) -> Value,
    schema: fn(&mut SchemaGenerator) -> [Schema; 2],
}

impl Messages {
    /// Create the functions for a method with these types of parameters and result.
    pub fn of<P: Message, R: Message>() -> Self {
        Self {
            params: |request| Ok(serde_json::to_string(&request.read::<P>()?).unwrap()),
            result: |text| {
                let typed: R = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
                serde_json::to_value(typed).unwrap()
            },
            schema: |generator| [generator.subschema_for::<P>(), generator.subschema_for::<R>()],
        }
    }
}

fn examples() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contract/agent-v1.md");
    let page = std::fs::read_to_string(path).unwrap();
    let blocks = page.split("```json\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().trim().to_owned()).collect()
}

fn find<'a>(verbs: &'a [Verb], name: &str) -> &'a Verb {
    verbs.iter().find(|verb| verb.name == name).unwrap_or_else(|| panic!("no method {name}"))
}

/// Return the JSON schema of every message, in the order of the methods.
fn schema() -> Value {
    let mut generator = SchemaGenerator::default();
    let mut methods = Map::new();
    for verb in all() {
        let [params, result] = (verb.messages.schema)(&mut generator);
        methods.insert(verb.name.to_owned(), json!({ "params": params, "result": result }));
    }
    let notifications = json!({
        "hello": generator.subschema_for::<Hello>(),
        "relay.received": generator.subschema_for::<Received>(),
        "relay.noise": generator.subschema_for::<Noise>(),
        "relay.ended": generator.subschema_for::<Ended>(),
    });
    json!({
        "version": PROTOCOL_VERSION,
        "methods": methods,
        "notifications": notifications,
        "error": generator.subschema_for::<ErrorObject>(),
        "$defs": generator.take_definitions(true),
    })
}

/// The committed schema equals the schema that is generated from the current types.
#[test]
fn committed_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contract/agent-v1.schema.json");
    let current = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("IOLAB_RECORD").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == current, "{path} is not current: run make protocol");
}

/// The requests and replies on the contract's page have the types with which their methods are registered.
#[test]
fn every_contract_example_is_read_and_written_as_the_same_json() {
    let (verbs, mut asked) = (all(), HashMap::new());
    for example in examples() {
        let plain: Value = serde_json::from_str(&example).unwrap();
        let Some(id) = plain["id"].as_i64().filter(|_| !plain["error"].is_object()) else { continue };
        if let Some(name) = plain["method"].as_str() {
            asked.insert(id, name.to_owned());
            let request = parse_request(example.as_bytes()).unwrap();
            let params = (find(&verbs, name).messages.params)(&request);
            let params = params.unwrap_or_else(|refusal| panic!("{refusal:?}"));
            assert_eq!(serde_json::from_str::<Value>(&params).unwrap(), plain["params"]);
        } else {
            let result = (find(&verbs, &asked[&id]).messages.result)(&plain["result"].to_string());
            assert_eq!(result, plain["result"]);
        }
    }
}

#[test]
fn every_method_is_unique_and_has_an_example() {
    let shown: BTreeSet<String> = examples()
        .iter()
        .filter_map(|example| parse_request(example.as_bytes()).ok())
        .map(|request| request.method.into_owned())
        .collect();
    let verbs = all();
    let named: BTreeSet<String> = verbs.iter().map(|verb| verb.name.to_owned()).collect();
    assert_eq!((&shown, named.len()), (&named, verbs.len()));
}

/// An unknown method is refused with the names of all methods.
#[test]
fn unknown_method_is_refused_with_the_known_methods() {
    let request = parse_request(br#"{"jsonrpc":"2.0","id":7,"method":"agent.sing"}"#).unwrap();
    let refusal = crate::session::methods::read(&request).err().unwrap();
    assert_eq!((refusal.id, refusal.error.code), (Some(7), iolab_protocol::ErrorCode::Method));
    assert!(refusal.error.message.contains("agent.ping, lease.take"), "{}", refusal.error.message);
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("-0".to_owned()),
        Just("1e999".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        "[a-z_]{0,8}".prop_map(|text| format!("{text:?}")),
        ".{0,6}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let key = prop_oneof![
            prop::sample::select(vec![
                "argv", "id", "netns", "undo", "kind", "ready", "path", "samplers", "env"
            ])
            .prop_map(str::to_owned),
            "[a-z]{1,6}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((key, inner), 0..5).prop_map(|members| {
                let members: Vec<String> =
                    members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// Parameters that were read can be written and read again unchanged.
fn reads_back(line: &str) -> Result<(), TestCaseError> {
    let verbs = all();
    let Ok(request) = parse_request(line.as_bytes()) else { return Ok(()) };
    let Some(verb) = verbs.iter().find(|verb| verb.name == request.method) else { return Ok(()) };
    if let Ok(params) = (verb.messages.params)(&request) {
        let written = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}","params":{params}}}"#, verb.name);
        let again = (verb.messages.params)(&parse_request(written.as_bytes()).unwrap());
        prop_assert_eq!(again, Ok(params));
    }
    Ok(())
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("IOLAB_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_parameters_are_read_or_refused(verb in any::<prop::sample::Index>(), params in json()) {
        let verbs = all();
        let name = verbs[verb.index(verbs.len())].name;
        reads_back(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}","params":{params}}}"#))?;
    }

    /// Generate damaged requests: in a request of the contract's page, one word is replaced with another word of the
    /// page.
    #[test]
    fn damaged_requests_are_read_or_refused(
        seed in prop::sample::select(examples()), from in any::<prop::sample::Index>(), value in json(),
    ) {
        let places: Vec<usize> = seed.match_indices([':', ',']).map(|(at, _)| at + 1).collect();
        let at = places[from.index(places.len())];
        let end = seed[at..].find([',', '}', ']']).map_or(seed.len(), |length| at + length);
        reads_back(&format!("{}{value}{}", &seed[..at], &seed[end..]))?;
    }
}
