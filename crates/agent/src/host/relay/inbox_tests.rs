//! Test that for any bytes received over a relay the forwarded lines conform to the protocol, and no message is lost or
//! duplicated.
//!
//! `IOLAB_CASES=1000000 cargo test --release -p iolab-agent inbox` runs a million cases.

use iolab_protocol::hello::NotificationLine;
use iolab_protocol::relay::{Noise, Received};
use iolab_protocol::{Notification, LINE_LIMIT_BYTES};
use proptest::prelude::*;

use super::*;

fn cases() -> ProptestConfig {
    let cases = std::env::var("IOLAB_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(20_000);
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_local_rejects: u32::MAX,
        ..ProptestConfig::default()
    }
}

/// Return everything that is read from `parts`, and the number of lines dropped at the end.
fn hear(parts: &[&[u8]]) -> (Vec<Heard>, u64) {
    let (mut inbox, mut all) = (Inbox::new(0), Vec::new());
    parts.iter().for_each(|part| inbox.push(part, 0, |heard| all.push(heard)));
    let (last, dropped) = inbox.finish(0);
    all.extend(last);
    (all, dropped)
}

fn message(text: &str) -> Heard {
    Heard::Message(Message::read(text.as_bytes()).unwrap())
}

fn noise(text: &str) -> Heard {
    Heard::Noise { text: text.to_owned(), dropped: 0 }
}

#[test]
fn messages_are_distinguished_from_kernel_output() {
    let (heard, dropped) =
        hear(&[b"[ 1.0] virtio\r\n\r\n{\"id\":1}\r\n[1]\n{\"id\":2", b"}\n{\"id\":3}{}\n\xff\n{\"a"]);
    let expected = [
        noise("[ 1.0] virtio"),
        message("{\"id\":1}"),
        noise("[1]"),
        message("{\"id\":2}"),
        noise("{\"id\":3}{}"),
        noise("\u{fffd}"),
        noise("{\"a"),
    ];
    assert_eq!((heard, dropped), (expected.into(), 0));
}

#[test]
fn object_without_a_final_line_feed_is_a_message() {
    assert_eq!(hear(&[b"{\"id\":1}"]).0, [message("{\"id\":1}")]);
}

#[test]
fn flood_of_noise_is_counted_and_hides_no_message() {
    let mut inbox = Inbox::new(0);
    let mut told = Vec::new();
    for _ in 0..1000 {
        inbox.push(b"x\n{}\n", 0, |heard| told.push(heard));
    }
    assert_eq!(told.iter().filter(|heard| matches!(heard, Heard::Message(_))).count(), 1000);
    assert_eq!(told.len(), 1256);
    inbox.push(b"y\nz\n", 1_000_000_000, |heard| told.push(heard));
    assert_eq!(told[1256], Heard::Noise { text: "y".to_owned(), dropped: 744 });
    assert_eq!(told[1257], noise("z"));
}

#[test]
fn longest_message_fits_into_a_protocol_line_and_a_longer_one_is_noise() {
    let text = format!("{{\"a\":\"{}\"}}", "x".repeat(LONGEST_LINE_BYTES - 8));
    let (heard, _) = hear(&[text.as_bytes(), b"\n"]);
    let Heard::Message(message) = heard.into_iter().next().unwrap() else { panic!("no message") };
    let received = Received { id: "i".repeat(64), message };
    let line = serde_json::to_vec(&NotificationLine::from(Notification::RelayReceived(received))).unwrap();
    assert!(line.len() <= LINE_LIMIT_BYTES, "{}", line.len());
    let longer = format!("{text} \n{{}}\n");
    let (heard, _) = hear(&[longer.as_bytes()]);
    assert_eq!(heard, [noise(&text[..NOISE_BYTES]), super::tests::message("{}")]);
}

/// Generate lines such as guests send: messages, parts of messages, kernel messages, random bytes.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let object = prop::sample::select(vec![
        "{}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        "{\"QMP\":{\"version\":{}}}\r",
        " {\"a\":\r[1,\"\\ud800\"]}",
    ]);
    prop_oneof![
        3 => object.clone().prop_map(|text| text.as_bytes().to_vec()),
        2 => (object, any::<prop::sample::Index>()).prop_map(|(text, at)| text.as_bytes()[..at.index(text.len())].to_vec()),
        1 => Just(b"[    2.15] Kernel panic - not syncing".to_vec()),
        2 => prop::collection::vec(any::<u8>().prop_filter("a line", |&byte| byte != b'\n'), 0..40),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_input_is_relayed_as_valid_protocol_lines(
        lines in prop::collection::vec(line(), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut stream = Vec::new();
        for line in &lines {
            stream.extend_from_slice(line);
            stream.push(b'\n');
        }
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        ends.extend([0, stream.len()]);
        ends.sort_unstable();
        let parts: Vec<&[u8]> = ends.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        let (heard, dropped) = hear(&parts);
        prop_assert_eq!(dropped, 0);
        let objects = lines.iter().filter(|line| {
            serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line).is_ok()
        });
        let messages = heard.iter().filter(|heard| matches!(heard, Heard::Message(_)));
        prop_assert!(messages.count() >= objects.count());
        for heard in heard {
            let notification = match heard {
                Heard::Message(message) => Notification::RelayReceived(Received { id: "x".to_owned(), message }),
                Heard::Noise { text, dropped } => Notification::RelayNoise(Noise { id: "x".to_owned(), text, dropped }),
            };
            let line = NotificationLine::from(notification);
            let written = serde_json::to_vec(&line).unwrap();
            prop_assert!(!written.contains(&b'\n') && !written.contains(&b'\r'));
            prop_assert_eq!(serde_json::from_slice::<NotificationLine>(&written).unwrap(), line);
        }
    }
}
