//! Split any stream of bytes into lines, and read or refuse each line as a request: `cargo +nightly fuzz run request`.
#![no_main]

use iolab_protocol::{parse_request, Frame, LineSplitter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| {
    LineSplitter::new(4096).push(stream, |frame| {
        if let Frame::Line(line) = frame {
            if let Ok(request) = parse_request(&line) {
                let written = serde_json::to_vec(&request).unwrap();
                assert_eq!(parse_request(&written).unwrap().id, request.id);
            }
        }
    });
});
