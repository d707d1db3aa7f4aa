//! Conversion of system errors into the errors of replies.

use std::io;

use iolab_protocol::ErrorObject;
use iolab_samplers::SampleError;
use nix::errno::Errno;

/// Result of a request.
pub type Answer<T> = Result<T, ErrorObject>;

/// Create an error for a failed operation `doing` on `path`.
pub fn refused(doing: &str, path: &str, error: &io::Error) -> ErrorObject {
    let seen = error.raw_os_error().map_or_else(|| error.to_string(), describe);
    ErrorObject::refused(format!("{doing} '{path}': {seen}"), error.raw_os_error(), path)
}

/// Create an error for an operation `doing` on `path` that failed with `errno`.
pub fn refused_errno(doing: &str, path: &str, errno: Errno) -> ErrorObject {
    refused(doing, path, &io::Error::from(errno))
}

/// Create an error for a sampler that could not read in `netns`.
pub fn not_sampled(netns: Option<&str>, error: &SampleError) -> ErrorObject {
    let place = netns.map_or_else(String::new, |name| format!(" in namespace '{name}'"));
    ErrorObject::refused(format!("sampling{place}: {error}"), error.errno(), netns.unwrap_or_default())
}

/// Return the description of an error number, in lower case and without the number.
pub fn describe(errno: i32) -> String {
    match Errno::from_raw(errno) {
        Errno::ENOENT => "no such file".to_owned(),
        known => known.desc().to_lowercase(),
    }
}
