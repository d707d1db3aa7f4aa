//! Programs and qdiscs on a port that conflict with a redirection of its frames.

use iolab_sys::bpf::{attached_programs, Place};

use crate::error::PortError;
use crate::hook::clsact::{about, EGRESS, INGRESS, NUMBER, TCA_KIND};
use crate::interface::{attributes, Interface};
use crate::route::{route_socket, Request};

const DOING: &str = "looking for other programs on an interface";
/// Prefix of the names of this crate's programs.
const OWN: &str = "iolab_";
/// Effect of a redirection on programs behind it.
const LOST: &str = "which would see the frames without their marks and sockets";
/// Length of struct tcmsg (bytes).
const TCMSG: usize = 20;

/// Check that a port has no program or qdisc that would treat redirected frames differently from other frames. Return
/// whether the port has a clsact qdisc.
///
/// # Errors
/// Fails with the name of the program or qdisc, or if the kernel does not list them.
pub(super) fn check(port: &Interface) -> Result<bool, PortError> {
    let conflict = |conflict: String| PortError::Conflict { name: port.name.clone(), conflict };
    if let Some(program) = port.program.filter(|program| program.mode != "native") {
        let (id, mode) = (program.program_id, program.mode);
        return Err(conflict(format!(
            "XDP program {id} ({mode}), which would see each arriving frame twice"
        )));
    }
    for (place, hook) in [(Place::StackIn, "ingress"), (Place::StackOut, "egress")] {
        let found = attached_programs(port.index, place).map_err(PortError::of(DOING, "bpf"))?;
        if let Some((name, id)) = found.iter().find(|(name, _)| !name.starts_with(OWN)) {
            return Err(conflict(format!("BPF program {id} ({name}) at tcx {hook}, {LOST}")));
        }
    }
    let qdiscs = listed(libc::RTM_GETQDISC, port.index, 0)?;
    let has = |wanted: &str| qdiscs.iter().any(|(kind, _)| kind == wanted);
    if let Some(kind) = ["etf", "taprio"].into_iter().find(|kind| has(kind)) {
        return Err(conflict(format!("qdisc {kind}, which would see the frames without their send times")));
    }
    for (parent, hook) in [(INGRESS, "ingress"), (EGRESS, "egress")] {
        let filters = listed(libc::RTM_GETTFILTER, port.index, parent)?;
        let is_foreign =
            |(kind, handle): &&(String, u32)| *handle != 0 && (kind != "bpf" || *handle != NUMBER);
        if let Some((kind, handle)) = filters.iter().find(is_foreign) {
            return Err(conflict(format!("tc filter {handle:#x} ({kind}) at {hook}, {LOST}")));
        }
    }
    Ok(has("clsact"))
}

/// Return kind and handle of each qdisc of an interface, or of each filter at a parent.
fn listed(request: u16, index: u32, parent: u32) -> Result<Vec<(String, u32)>, PortError> {
    let refused = |errno| PortError::of(DOING, "netlink")(errno);
    let socket = route_socket().map_err(refused)?;
    let messages = match Request::new(request, libc::NLM_F_DUMP, &about(index, 0, parent, 0)).dump(&socket) {
        // The interface has no qdisc with this parent.
        Err(errno) if matches!(errno.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => return Ok(vec![]),
        found => found.map_err(refused)?,
    };
    let parse = |message: &Vec<u8>| {
        let found = iolab_sys::read_head::<u32>(message.get(4..)?)?;
        let handle = iolab_sys::read_head::<u32>(message.get(8..)?)?;
        let (_, kind) = attributes(message.get(TCMSG..)?).find(|(kind, _)| *kind == TCA_KIND)?;
        let kind = String::from_utf8_lossy(kind).trim_end_matches('\0').to_owned();
        (found == index).then_some((kind, handle))
    };
    Ok(messages.iter().filter_map(parse).collect())
}
