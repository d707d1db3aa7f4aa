//! `iolab-agent open-macvtap`, started through sudo for an ordinary user: opens the device of one macvtap, and returns
//! it over the socket on standard input. The program opens no path from the request, changes no existing namespace, and
//! exits.
//!
//! The kernel identifies the namespace's owner: a user namespace that the calling user created must own the
//! network namespace.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use iolab_sys::{network_namespace_owner, tap::name_of_tap};
use nix::mount::{mount, MsFlags};
use nix::sched::{setns, unshare, CloneFlags};
use nix::unistd::Uid;

use super::message::{Reply, Request};
use super::node::{is_interface_name, number_of, open_number};
use crate::kernel::packets::{limit_waiting, receive, send};

/// Command-line argument that runs this program as the opener.
pub const ARGUMENT: &str = "open-macvtap";

/// Serve one request on standard input. Return the exit status: 0 if the request was granted.
pub fn open_for_caller() -> u8 {
    let stdin = io::stdin();
    let outcome = serve(stdin.as_fd());
    let (reply, file) = match outcome {
        Ok(Some(file)) => (Reply::Opened, Some(file)),
        Ok(None) => (Reply::Ready, None),
        Err(why) => (Reply::Refused { why }, None),
    };
    let told = send(stdin.as_fd(), &reply, file.as_ref().map(AsFd::as_fd));
    if let (Reply::Refused { why }, Err(_)) = (&reply, &told) {
        crate::log(why); // standard input is not a socket: a user has started the opener by hand
    }
    u8::from(told.is_err() || matches!(reply, Reply::Refused { .. }))
}

fn serve(socket: BorrowedFd<'_>) -> Result<Option<OwnedFd>, String> {
    let user = caller(socket)?;
    limit_waiting(socket, PATIENCE).map_err(failed("limiting the wait for a request"))?;
    let received = receive(socket).map_err(failed("reading the request"))?;
    let (request, namespace) = received.ok_or("reading the request: there is none")?;
    match request {
        Request::Ready => Ok(None),
        Request::Open { interface } => {
            let namespace = namespace.ok_or("reading the request: no network namespace came with it")?;
            open(user, &interface, namespace.as_fd()).map(Some)
        }
    }
}

/// Return the user who called sudo, and verify that this user created the socket.
fn caller(socket: BorrowedFd<'_>) -> Result<u32, String> {
    if !Uid::effective().is_root() {
        return Err(format!("saw user {}; allowed: root, by sudo", Uid::effective()));
    }
    let named = std::env::var("SUDO_UID").ok().and_then(|text| text.parse::<u32>().ok());
    let user = named.ok_or("saw no SUDO_UID; allowed: being started by sudo")?;
    if user == 0 {
        return Err("saw root as the caller; allowed: an ordinary user, root needs none of this".to_owned());
    }
    let maker = rustix::net::sockopt::socket_peercred(socket)
        .map_err(|error| format!("standard input must be a unix socket: {error}"))?;
    if maker.uid.as_raw() != user {
        return Err(format!("saw a socket of user {}; allowed: one of user {user}", maker.uid.as_raw()));
    }
    Ok(user)
}

fn open(user: u32, interface: &str, namespace: BorrowedFd<'_>) -> Result<OwnedFd, String> {
    if !is_interface_name(interface) {
        return Err("saw what cannot be an interface's name".to_owned());
    }
    let owner = network_namespace_owner(namespace).map_err(failed("looking whose the namespace is"))?;
    if owner != user {
        return Err(format!("saw a network namespace of user {owner}; allowed: one of user {user}"));
    }
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(failed("entering the network namespace"))?;
    make_room().map_err(failed("mounting folders of its own"))?;
    let sys = Path::new(ROOM).join(SYS);
    let number = number_of(&sys, interface).map_err(failed("finding the device of a macvtap"))?;
    let device = open_number(Path::new(ROOM), number).map_err(failed("opening the device"))?;
    // Check again, because the device number was read before the device was opened and may since belong to a device of
    // a different namespace. An open device keeps its number as long as its interface exists, and the interface name of
    // the device shows that the interface still exists.
    let again = number_of(&sys, interface).map_err(failed("looking once more"))?;
    let name = name_of_tap(device.as_fd()).map_err(failed("asking the device for its interface"))?;
    if again != number || name != interface {
        return Err("the interface became another one meanwhile".to_owned());
    }
    Ok(device)
}

/// Mount a private folder for one device node, and in it the `/sys` of the network namespace.
fn make_room() -> nix::Result<()> {
    const NOTHING: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_PRIVATE | MsFlags::MS_REC, NOTHING)?;
    mount(Some("tmpfs"), ROOM, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC, Some("mode=700"))?;
    let sys = Path::new(ROOM).join(SYS);
    nix::unistd::mkdir(&sys, nix::sys::stat::Mode::S_IRWXU)?;
    mount(Some("sysfs"), &sys, Some("sysfs"), MsFlags::MS_RDONLY, NOTHING)
}

fn failed<E: Display>(doing: &'static str) -> impl FnOnce(E) -> String {
    move |error| format!("{doing}: {error}")
}

/// Folder over which the opener mounts a private folder for the device node and `/sys`; the folder exists on every
/// system.
const ROOM: &str = "/run";
const SYS: &str = "sys";
/// Timeout of the request, so that no user keeps a root process waiting.
const PATIENCE: Duration = Duration::from_secs(5);
