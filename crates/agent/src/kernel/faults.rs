//! From what the system said to the error of a reply.

use std::io;

use iolab_protocol::ErrorObject;
use iolab_samplers::SampleError;
use nix::errno::Errno;

/// What a request comes to.
pub type Answer<T> = Result<T, ErrorObject>;

/// The system refused `path` while `doing`.
pub fn refused(doing: &str, path: &str, error: &io::Error) -> ErrorObject {
    let seen = error.raw_os_error().map_or_else(|| error.to_string(), describe);
    ErrorObject::refused(format!("{doing} '{path}': {seen}"), error.raw_os_error(), path)
}

/// The system refused `path` with `errno` while `doing`.
pub fn refused_errno(doing: &str, path: &str, errno: Errno) -> ErrorObject {
    refused(doing, path, &io::Error::from(errno))
}

/// A sampler could not read in `netns`.
pub fn not_sampled(netns: Option<&str>, error: &SampleError) -> ErrorObject {
    let place = netns.map_or_else(String::new, |name| format!(" in namespace '{name}'"));
    ErrorObject::refused(format!("sampling{place}: {error}"), error.errno(), netns.unwrap_or_default())
}

/// What an error number means, in lower case and without the number.
pub fn describe(errno: i32) -> String {
    match Errno::from_raw(errno) {
        Errno::ENOENT => "no such file".to_owned(),
        known => known.desc().to_lowercase(),
    }
}
