//! Tests of gap frames on a veth pair: the order and lengths of the frames are the clock, so a busy machine does not
//! affect the result.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use common::lab::{number, sender, Lab, SECOND_NS};
use common::{is_root, state_folder, Agent};
use serde_json::json;

/// Decode a base64 text (RFC 4648).
fn unpacked(text: &str) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for letter in text.trim_end_matches('=').chars() {
        bits = bits << 6 | u32::try_from(LETTERS.find(letter).unwrap()).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).unwrap());
        }
    }
    bytes
}

/// Return the first bytes and the length without FCS of each frame in a pcapng file in this machine's byte order.
fn captured(file: &[u8]) -> Vec<(&[u8], usize)> {
    let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut frames) = (0, Vec::new());
    while at < file.len() {
        if word(at) == 6 {
            frames.push((&file[at + 28..at + 28 + word(at + 20)], word(at + 24)));
        }
        at += word(at + 4);
    }
    frames
}

/// On the wire every frame begins at its exact byte position, regardless of when the sender ran, because PAUSE frames
/// with a pause time of zero fill the gaps.
#[test]
fn gap_frames_space_frames_to_the_byte() {
    const LINE_BPS: u64 = 100_000_000;
    const FRAMES_PER_SECOND: u64 = 2_000;
    if !is_root("gap_frames_space_frames_to_the_byte") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "gaps", 2);
    let near = json!({"name": "near", "netns": lab.netns[0], "interface": "right", "path": "af_packet",
        "halves": "send", "send_cpu": 0});
    lab.agent.call("traffic.open", json!({"id": "set", "ports": [near]}));
    let capture = json!({"id": "all", "netns": lab.netns[1], "interface": "left", "snap_bytes": 64,
        "ring_bytes": 1 << 24});
    lab.agent.call("capture.start", capture);
    let mut one = sender("near", 1, &json!({"mac": "02:00:00:00:00:02"}), FRAMES_PER_SECOND);
    one["gap_frames"] = json!({"line_bps": LINE_BPS});
    let trial = json!({"id": "set", "duration_ns": SECOND_NS / 2, "senders": [one], "receivers": []});
    let ran = lab.agent.call("traffic.run", trial);
    let sent = &ran["senders"][0];
    let told = lab.agent.call("capture.stop", json!({"id": "all"}));
    assert_eq!((&told["lost_frames"], &told["overwritten_frames"]), (&json!(0), &json!(0)));
    let mut file = Vec::new();
    while file.len() < usize::try_from(number(&told["total_bytes"])).unwrap() {
        let part = lab.agent.call("capture.read", json!({"id": "all", "offset_bytes": file.len()}));
        file.extend(unpacked(part["packed"].as_str().unwrap()));
    }
    let (mut position, mut first, mut data, mut gaps) = (0, 0, 0u64, 0u64);
    for (bytes, length) in captured(&file) {
        let on_line = u64::try_from(length).unwrap() + 4 + 20; // FCS; preamble and inter-frame gap
        match bytes[12..14] {
            [0x88, 0x08] => {
                assert_eq!(bytes[14..18], [0, 1, 0, 0], "PAUSE of no time");
                assert_eq!(bytes[..6], [1, 0x80, 0xc2, 0, 0, 1], "bridges drop it");
                gaps += 1;
            }
            [8, 0] => {
                if data == 0 {
                    first = position;
                }
                let (at, wanted) = (position - first, data * LINE_BPS / 8 / FRAMES_PER_SECOND);
                assert!(at <= wanted && wanted - at < 84, "frame {data} at byte {at}, not {wanted}");
                data += 1;
            }
            _ => continue, // the kernel's own
        }
        position += on_line;
    }
    assert_eq!((Some(data), Some(gaps)), (sent["offered_frames"].as_u64(), sent["gap_frames"].as_u64()));
    assert!(data > 20 && gaps > 4 * data, "{data} frames, {gaps} between them");
}
