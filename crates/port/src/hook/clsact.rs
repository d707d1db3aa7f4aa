//! Attachment of a program as a clsact filter, for kernels without TCX links; equivalent to `tc filter add ... bpf
//! direct-action`.

use std::os::fd::OwnedFd;

use iolab_sys::bpf::Program;

use crate::error::PortError;
use crate::route::{route_socket, Request};

const DOING: &str = "attaching a program to an interface by clsact";
const CLSACT: u32 = 0xffff_fff1;
const HANDLE: u32 = 0xffff_0000;
/// Parent handle of the ingress hook.
pub(crate) const INGRESS: u32 = 0xffff_fff2;
/// Parent handle of the egress hook.
pub(crate) const EGRESS: u32 = 0xffff_fff3;
/// Filter handle that other filters are unlikely to use.
pub(crate) const NUMBER: u32 = 0x1a0b;
/// Attribute with the kind of a qdisc or filter.
pub(crate) const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const DIRECT_ACTION: u32 = 1;

/// A filter, removed on drop together with clsact if this process added it.
#[derive(Debug)]
pub(crate) struct Filter {
    socket: OwnedFd,
    index: u32,
    parent: u32,
    preference: u32,
    made_clsact: bool,
}

impl Filter {
    pub(crate) fn new(
        program: &Program,
        index: u32,
        parent: u32,
        preference: u32,
    ) -> Result<Self, PortError> {
        let socket = route_socket().map_err(PortError::of(DOING, "socket"))?;
        let create = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let clsact = Request::new(libc::RTM_NEWQDISC, create, &about(index, HANDLE, CLSACT, 0));
        let made_clsact = match clsact.attribute(TCA_KIND, b"clsact\0").exchange(&socket) {
            Ok(_) => true,
            Err(seen) if seen.raw_os_error() == Some(libc::EEXIST) => false,
            Err(seen) => return Err(PortError::of(DOING, "netlink")(seen)),
        };
        let this = Self { socket, index, parent, preference, made_clsact };
        let options = Request::inner(&[])
            .attribute(TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes())
            .attribute(TCA_BPF_NAME, b"iolab\0")
            .attribute(TCA_BPF_FLAGS, &DIRECT_ACTION.to_ne_bytes());
        Request::new(libc::RTM_NEWTFILTER, create, &this.about())
            .attribute(TCA_KIND, b"bpf\0")
            .attribute(TCA_OPTIONS, options.bytes())
            .exchange(&this.socket)
            .map_err(PortError::of(DOING, "netlink"))?;
        Ok(this)
    }

    fn about(&self) -> [u8; 20] {
        let protocol = u32::from(u16::try_from(libc::ETH_P_ALL).unwrap_or(3).to_be());
        about(self.index, NUMBER, self.parent, self.preference << 16 | protocol)
    }
}

/// Return a shell command that removes the first filters at both hooks of an interface and, unless the interface had it
/// before, an unused clsact. The command succeeds if they are gone already.
pub(crate) fn removal(interface: &str, had_clsact: bool) -> String {
    let hooks = ["ingress", "egress"];
    let filters = hooks.map(|hook| {
        format!("tc filter del dev {interface} {hook} pref 1 handle {NUMBER:#x} bpf 2>/dev/null;")
    });
    let shown = hooks.map(|hook| format!("tc filter show dev {interface} {hook} 2>/dev/null;"));
    let clsact = if had_clsact {
        String::new()
    } else {
        format!("[ -n \"$({})\" ] || tc qdisc del dev {interface} clsact 2>/dev/null;", shown.join(" "))
    };
    format!("{} {clsact} true", filters.join(" "))
}

impl Drop for Filter {
    fn drop(&mut self) {
        let filter =
            Request::new(libc::RTM_DELTFILTER, libc::NLM_F_ACK, &self.about()).attribute(TCA_KIND, b"bpf\0");
        // A drop cannot report an error; the request fails if the interface is gone.
        let _ = filter.exchange(&self.socket);
        if self.made_clsact {
            let clsact = about(self.index, HANDLE, CLSACT, 0);
            let _ = Request::new(libc::RTM_DELQDISC, libc::NLM_F_ACK, &clsact).exchange(&self.socket);
        }
    }
}

/// Return a struct tcmsg.
pub(crate) fn about(index: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    for (place, word) in bytes[4..].chunks_exact_mut(4).zip([index, handle, parent, info]) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}
