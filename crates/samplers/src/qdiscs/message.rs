//! The bytes of rtnetlink's qdisc dump: one request, and the counters in its answers. No I/O.

use std::collections::HashMap;

use iolab_protocol::observations::QdiscCounts;

use crate::SampleError;

/// Whether more datagrams follow.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// The dump goes on.
    More,
    /// That was all.
    Done,
}

/// A queueing discipline whose interface is known by number only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    interface_index: u32,
    counts: QdiscCounts,
}

impl Qdisc {
    /// With the interface's name; `None` when it has gone meanwhile.
    pub fn named(self, names: &HashMap<u32, String>) -> Option<QdiscCounts> {
        let interface = names.get(&self.interface_index)?.clone();
        Some(QdiscCounts { interface, ..self.counts })
    }
}

/// The request for all queueing disciplines of all interfaces: `nlmsghdr` and an empty `tcmsg`.
pub fn dump_request() -> Vec<u8> {
    let mut request = Vec::with_capacity(HEADER_BYTES + TCMSG_BYTES);
    request.extend(36_u32.to_ne_bytes());
    request.extend(RTM_GETQDISC.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    request.extend([0; 8 + TCMSG_BYTES]);
    request
}

/// Append the queueing disciplines in one datagram to `qdiscs`.
pub fn parse(datagram: &[u8], qdiscs: &mut Vec<Qdisc>) -> Result<Progress, SampleError> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let length = u32_at(rest, 0)? as usize;
        let kind = u16_at(rest, 4)?;
        let body = rest.get(HEADER_BYTES..length).ok_or_else(|| wrong("a whole message", rest))?;
        match kind {
            NLMSG_DONE => return Ok(Progress::Done),
            NLMSG_ERROR => {
                let errno =
                    nix::errno::Errno::from_raw(i32::from_ne_bytes(array_at(body, 0)?).wrapping_neg());
                return Err(SampleError::Netlink { doing: "asking the kernel for its qdiscs", errno });
            }
            RTM_NEWQDISC => qdiscs.push(parse_qdisc(body)?),
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Ok(Progress::More)
}

fn parse_qdisc(body: &[u8]) -> Result<Qdisc, SampleError> {
    let attributes = body.get(TCMSG_BYTES..).ok_or_else(|| wrong("a tcmsg", body))?;
    let mut counts = QdiscCounts {
        interface: String::new(),
        kind: String::new(),
        handle: handle(u32_at(body, 8)?),
        parent: parent(u32_at(body, 12)?),
        bytes: 0,
        packets: 0,
        drops: 0,
        overlimits: 0,
        requeues: 0,
        backlog_bytes: 0,
        qlen: 0,
    };
    for_each_attribute(attributes, |kind, value| {
        match kind {
            TCA_KIND => counts.kind = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
            TCA_STATS2 => parse_statistics(value, &mut counts)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(Qdisc { interface_index: u32_at(body, 4)?, counts })
}

fn parse_statistics(attributes: &[u8], counts: &mut QdiscCounts) -> Result<(), SampleError> {
    let mut packets_64 = None;
    for_each_attribute(attributes, |kind, value| {
        match kind {
            TCA_STATS_BASIC => {
                counts.bytes = u64_at(value, 0)?;
                counts.packets = u32_at(value, 8)?.into();
            }
            TCA_STATS_PKT64 => packets_64 = Some(u64_at(value, 0)?),
            TCA_STATS_QUEUE => {
                counts.qlen = u32_at(value, 0)?.into();
                counts.backlog_bytes = u32_at(value, 4)?.into();
                counts.drops = u32_at(value, 8)?.into();
                counts.requeues = u32_at(value, 12)?.into();
                counts.overlimits = u32_at(value, 16)?.into();
            }
            _ => {}
        }
        Ok(())
    })?;
    counts.packets = packets_64.unwrap_or(counts.packets);
    Ok(())
}

fn for_each_attribute(
    attributes: &[u8],
    mut take: impl FnMut(u16, &[u8]) -> Result<(), SampleError>,
) -> Result<(), SampleError> {
    let mut rest = attributes;
    while rest.len() >= ATTRIBUTE_HEADER_BYTES {
        let length = usize::from(u16_at(rest, 0)?);
        let value =
            rest.get(ATTRIBUTE_HEADER_BYTES..length).ok_or_else(|| wrong("a whole attribute", rest))?;
        take(u16_at(rest, 2)? & ATTRIBUTE_KIND_MASK, value)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Ok(())
}

/// As tc prints it: the major number, a colon, the minor number unless it is 0.
fn handle(number: u32) -> String {
    match (number >> 16, number & 0xffff) {
        (major, 0) => format!("{major:x}:"),
        (0, minor) => format!(":{minor:x}"),
        (major, minor) => format!("{major:x}:{minor:x}"),
    }
}

fn parent(number: u32) -> String {
    if number == TC_H_ROOT {
        "root".to_owned()
    } else {
        handle(number)
    }
}

fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], SampleError> {
    let part = bytes.get(at..at + N).and_then(|part| part.try_into().ok());
    part.ok_or_else(|| wrong("more bytes", bytes))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, SampleError> {
    array_at(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, SampleError> {
    array_at(bytes, at).map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, SampleError> {
    array_at(bytes, at).map(u64::from_ne_bytes)
}

fn wrong(expected: &'static str, seen: &[u8]) -> SampleError {
    SampleError::format("the kernel's qdiscs", expected, format!("{:02x?}", &seen[..seen.len().min(16)]))
}

// linux/netlink.h
const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const ATTRIBUTE_KIND_MASK: u16 = 0x3fff;
const NLMSG_ERROR: u16 = 0x2;
const NLMSG_DONE: u16 = 0x3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
// linux/rtnetlink.h
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const TCMSG_BYTES: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TC_H_ROOT: u32 = 0xffff_ffff;
// linux/gen_stats.h
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
