//! The character device of a macvtap interface. The device is identified by its device number in the sysfs of its
//! namespace, never by its name.
//!
//! An agent with root privileges opens it directly. The agent of an ordinary user sends a request to `door`, a process
//! of the same user outside the namespaces, which starts `opener` through sudo. The opener trusts no input, and does
//! nothing but open the device.

mod door;
mod message;
mod node;
mod opener;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use iolab_protocol::ErrorObject;

pub use door::{stand, Door, OUTSIDE};
pub use opener::{open_for_caller, ARGUMENT as OPENER};

use crate::kernel::faults::{refused, Answer};
use crate::kernel::netns;

/// Refuse an invalid interface name.
pub fn check_interface(name: &str) -> Answer<()> {
    if node::is_interface_name(name) {
        return Ok(());
    }
    let message = "an interface's name is 1 to 15 printable characters without space, '/', ':' and '%'";
    Err(ErrorObject::params(message, name))
}

/// Open the device of the macvtap `interface` in the namespace `netns`, through `door` if given.
pub fn open(netns: Option<&str>, interface: &str, door: Option<&Door>) -> Answer<OwnedFd> {
    if let Some(door) = door {
        return open_through(door, netns, interface);
    }
    let number = netns::within_with_sys(netns, || {
        node::number_of(Path::new("/sys"), interface)
            .map_err(|error| refused("finding the device of macvtap", interface, &error))
    })?;
    node::open_number(Path::new("/dev"), number)
        .map_err(|error| refused("opening the device of macvtap", interface, &error))
}

fn open_through(door: &Door, netns: Option<&str>, interface: &str) -> Answer<OwnedFd> {
    let path = match netns {
        Some(name) => {
            netns::check_name(name)?;
            netns::path(name)
        }
        None => "/proc/self/ns/net".to_owned(),
    };
    let namespace = File::open(&path).map_err(|error| refused("entering namespace", &path, &error))?;
    door.open(interface, namespace.as_fd()).map_err(|why| {
        ErrorObject::refused(
            format!("opening the device of macvtap '{interface}' by sudo: {why}"),
            None,
            interface,
        )
    })
}
