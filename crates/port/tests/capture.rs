//! Tests of captures that an observed port writes, read by independent programs. The tests are skipped, with a message,
//! if these programs are missing.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unwrap_used)] // small numbers of a check

use std::process::Command;

use iolab_port::{loopback, receive, reserve, Counts, Observed, PcapngWriter, TxPort};
use iolab_sys::clock::RealtimeOffset;

const FRAMES: u8 = 20;

/// Sends frames through an observed line, and returns the capture of the receiving end.
fn capture() -> Vec<u8> {
    let (tx, rx) = loopback(32, 200);
    let mut tx = Observed::new(tx, Counts::default());
    let mut rx = Observed::new(rx, PcapngWriter::new(Vec::new(), "east", RealtimeOffset::measure()).unwrap());
    let mut batch = reserve(&mut tx, usize::from(FRAMES));
    for number in 0..FRAMES {
        let bytes = batch.frame(usize::from(number), 60 + usize::from(number));
        bytes.fill(number);
        bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    }
    batch.commit(usize::from(FRAMES));
    tx.flush().unwrap();
    assert_eq!(receive(&mut rx, 64).unwrap().len(), usize::from(FRAMES));
    let expected_bytes = (60..60 + u64::from(FRAMES)).sum::<u64>();
    assert_eq!((tx.observer().out_frames, tx.observer().out_bytes), (u64::from(FRAMES), expected_bytes));
    let (_, writer) = rx.into_parts();
    let (bytes, frames) = writer.finish().unwrap();
    assert_eq!(frames, u64::from(FRAMES));
    bytes
}

#[allow(clippy::print_stderr)] // print why the test is skipped
fn read_by(program: &str, options: &[&str]) -> Option<String> {
    let path = std::env::temp_dir().join(format!("iolab-port-{}-{program}.pcapng", std::process::id()));
    std::fs::write(&path, capture()).unwrap();
    let output = Command::new(program).args(options).arg(&path).output();
    std::fs::remove_file(&path).unwrap();
    let Ok(output) = output else {
        eprintln!("left out: {program} is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// capinfos finds the frames, the interface and the resolution.
#[test]
fn capinfos_reads_a_written_capture() {
    let Some(said) = read_by("capinfos", &["-M"]) else { return };
    for fact in [
        "pcapng",
        "Number of packets:   20",
        "Name = east",
        "Time resolution = 0x09",
        "Encapsulation = Ethernet",
    ] {
        assert!(said.contains(fact), "{fact}: {said}");
    }
}

/// tshark reads each frame whole, with its direction and its time to the nanosecond, and reports nothing malformed.
#[test]
fn tshark_reads_each_captured_frame() {
    let fields =
        ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.packet_flags_direction"];
    let options = [&fields[..], &["-e", "eth.src", "-e", "_ws.malformed", "-r"]].concat();
    let Some(said) = read_by("tshark", &options) else { return };
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert_eq!(said.lines().count(), usize::from(FRAMES));
    for (number, line) in (0..FRAMES).zip(said.lines()) {
        let words: Vec<_> = line.split('\t').collect();
        assert!((words[0].parse::<f64>().unwrap() - now_s).abs() < 60.0, "{line}");
        assert_eq!(words[0].split('.').nth(1).map(str::len), Some(9), "{line}");
        assert_eq!(words[1], (60 + u32::from(number)).to_string());
        assert_eq!(u32::from_str_radix(words[2].trim_start_matches("0x"), 16).unwrap(), 1);
        assert_eq!(words[3], format!("{number:02x}:").repeat(6).trim_end_matches(':'));
        assert_eq!(words[4], "");
    }
}
