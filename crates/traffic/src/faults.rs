//! Conversion of errors of ports, templates and the engine to error objects for the reply.

use iolab_port::PortError;
use iolab_protocol::{ErrorCode, ErrorData, ErrorObject};
use nix::errno::Errno;

/// Return the error object for an interface error during the operation `doing`.
pub fn port_refused(doing: &str, interface: &str, error: &PortError) -> ErrorObject {
    let text = error.to_string();
    let message = format!("{doing}: {}", text.strip_prefix("opening a port: ").unwrap_or(&text));
    if let PortError::BadName { name } = error {
        return ErrorObject::params(message, name.as_str());
    }
    let data = ErrorData {
        errno: errno(error),
        path: Some(interface.to_owned()),
        program_id: match error {
            PortError::ProgramPresent { program_id, .. } => Some(*program_id),
            _ => None,
        },
        ..ErrorData::default()
    };
    ErrorObject::new(ErrorCode::Refused, message).with(data)
}

fn errno(error: &PortError) -> Option<i32> {
    let known = match error {
        PortError::NoInterface { .. } => Errno::ENODEV,
        PortError::Down { .. } => Errno::ENETDOWN,
        PortError::FrameOverMtu { .. } | PortError::FrameOverPath { .. } => Errno::EMSGSIZE,
        PortError::ProgramPresent { .. } | PortError::QueueBusy { .. } => Errno::EBUSY,
        PortError::NotPermitted { errno, .. }
        | PortError::ProgramRefused { errno, .. }
        | PortError::System { errno, .. } => return errno.raw_os_error(),
        _ => return None,
    };
    Some(known as i32)
}

/// Return the error object for an invalid parameter; `error` describes the invalid value.
pub fn bad_params(place: &str, error: &impl std::fmt::Display) -> ErrorObject {
    ErrorObject::params(format!("{place}: {error}"), place)
}
