//! The loop on standard input: each line is a request, which runs on a separate thread or in order. Replies
//! are sent when they are ready.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;

use iolab_protocol::{parse_request, ErrorCode, ErrorObject, Frame, LineSplitter, LINE_LIMIT_BYTES};

use crate::host::Host;
use crate::session::answers::{answer, work_aside};
use crate::session::ending::end;
use crate::session::{methods, silence};

/// Serve requests until the end of standard input, then undo all changes and exit.
pub fn serve(host: &Arc<Host>) -> ! {
    let mut splitter = LineSplitter::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut input = io::stdin().lock();
    loop {
        match input.read(&mut buffer) {
            Ok(0) => end(host, |_| {}),
            Ok(length) => {
                silence::renew();
                splitter.push(&buffer[..length], |frame| take(host, &frame));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => end(host, |_| {}),
        }
    }
}

fn take(host: &Arc<Host>, frame: &Frame) {
    if matches!(frame, Frame::Line(line) if line.trim_ascii().is_empty()) {
        return;
    }
    let Frame::Line(line) = frame else {
        let message = format!("reading a request: the line is longer than {LINE_LIMIT_BYTES} bytes");
        return answer::<()>(host, None, Err(ErrorObject::new(ErrorCode::Request, message)));
    };
    let read = parse_request(line).and_then(|request| Ok((request.id, methods::read(&request)?)));
    match read {
        Ok((_, (verb, job))) if verb.in_order => job(host),
        Ok((id, (_, job))) => work_aside(host, id, job),
        Err(refusal) => answer::<()>(host, refusal.id, Err(refusal.error)),
    }
}
