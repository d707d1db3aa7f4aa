//! Tests that no text and no message of a kernel makes a parser panic. `IOLAB_CASES` sets the number of cases of each
//! test (default 2000).

use std::hint::black_box;

use proptest::prelude::*;
use proptest::sample::{select, Index};

use crate::threads::status::Status;
use crate::{cpu, drops, interfaces, qdiscs, sockets, softirq, softnet, threads};

fn cases() -> ProptestConfig {
    let cases = std::env::var("IOLAB_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Texts of the running kernel, and a tracepoint's format, because random bytes alone hardly ever form a valid first
/// word.
fn texts() -> Vec<String> {
    let names = [
        "softirqs",
        "stat",
        "net/softnet_stat",
        "net/dev",
        "net/snmp",
        "net/netstat",
        "net/snmp6",
        "self/stat",
        "self/schedstat",
        "self/status",
    ];
    let read = |name: &&str| std::fs::read_to_string(format!("/proc/{name}")).ok();
    let mut texts: Vec<String> = names.iter().filter_map(read).collect();
    texts.push(r#"{ 2, "NOT_SPECIFIED" }, { 3, "NO_SOCKET" }"#.to_owned());
    texts
}

/// Return the type information of a kernel with a single enumeration (Linux Documentation/bpf/btf.rst).
fn types() -> Vec<u8> {
    let strings = b"\0skb_drop_reason\0SKB_DROP_REASON_NO_SOCKET\0";
    let enumeration = [1_u32, 0x0600_0001, 4, 17, 3]; // its name, one member, its size; the member's name and value
    let header = [24_u32, 0, 20, 20, u32::try_from(strings.len()).unwrap()];
    let mut bytes = 0xeb9f_u16.to_le_bytes().to_vec();
    bytes.extend([1, 0]);
    bytes.extend(header.iter().chain(&enumeration).flat_map(|word| word.to_le_bytes()));
    bytes.extend(strings);
    bytes
}

/// Offset of a damaged byte, kind of the damage, and a new byte.
type Damage = (Index, u8, u8);

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let byte = prop_oneof![select(b" \n:0129-.()x\x00\xff".to_vec()), any::<u8>()];
    prop::collection::vec((any::<Index>(), any::<u8>(), byte), 0..8)
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for (at, how, byte) in damages {
        if bytes.is_empty() {
            break;
        }
        let at = at.index(bytes.len());
        match how % 5 {
            0 => bytes[at] = *byte,
            1 => bytes.insert(at, *byte),
            2 => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            _ => bytes.extend_from_within(at..),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_text_is_read_or_refused(text in select(texts()), damages in damages()) {
        let text = String::from_utf8_lossy(&damaged(text.into_bytes(), &damages)).into_owned();
        let _ = black_box((softirq::parse(&text), softnet::parse(&text), interfaces::parse(&text)));
        let _ = black_box((cpu::parse(&text), drops::interfaces(&text), drops::protocols(&text)));
        black_box((drops::protocols6(&text), drops::reasons::of_format(&text)));
        let _ = black_box(threads::parse(None, 1, 1, &text, &text, &Status::parse(&text)));
    }

    #[test]
    fn any_netlink_message_is_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = black_box((qdiscs::message::parse(&body), sockets::message::parse(&body)));
    }

    #[test]
    fn any_type_information_is_read_or_refused(damages in damages()) {
        black_box(drops::reasons::of_types(&damaged(types(), &damages)));
    }
}

#[test]
fn undamaged_type_information_is_read() {
    let names = drops::reasons::of_types(&types()).unwrap();
    assert_eq!(names.get(&3).map(String::as_str), Some("NO_SOCKET"));
}
