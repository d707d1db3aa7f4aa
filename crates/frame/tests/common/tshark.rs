//! Fields of frames as read by tshark, an independent implementation.

use std::io::Write as _;
use std::process::Command;

/// The fields of a frame, as text.
#[derive(Debug, PartialEq, Eq)]
pub struct Row(pub Vec<String>);

/// Run tshark on `frames`; none if tshark is not installed.
pub fn dissect(fields: &[&str], frames: &[Vec<u8>]) -> Option<Vec<Row>> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&pcap(frames)).expect("written");
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file.path());
    command.args([
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "udp.check_checksum:TRUE",
        "-o",
        "tcp.check_checksum:TRUE",
    ]);
    command.args(["-T", "fields", "-E", "separator=;", "-E", "occurrence=a"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let _ = writeln!(std::io::stderr(), "skipped: tshark is not installed (apt-get install tshark)");
            return None;
        }
        output => output.expect("tshark runs"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    Some(text.lines().map(|line| Row(line.split(';').map(String::from).collect())).collect())
}

/// Return a capture file of `frames`, one microsecond apart.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (time, frame) in frames.iter().enumerate() {
        let length = u32::try_from(frame.len()).expect("short");
        for word in [0, u32::try_from(time).expect("few"), length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}
