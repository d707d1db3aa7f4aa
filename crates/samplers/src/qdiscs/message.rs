//! Parser of rtnetlink's qdisc dump, without I/O.

use iolab_protocol::observations::QdiscCounters;

use crate::links::Link;
use crate::netlink::{for_each_attribute, u32_at, u64_at, wrong};
use crate::SampleError;

/// A qdisc with the index of its interface, but without the interface's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    interface_index: u32,
    counts: QdiscCounters,
}

impl Qdisc {
    /// Return the counters with the interface's name; `None` if the interface no longer exists.
    pub fn named(self, links: &[Link]) -> Option<QdiscCounters> {
        let interface = links.iter().find(|link| link.index == self.interface_index)?.name.clone();
        Some(QdiscCounters { interface, ..self.counts })
    }
}

/// Parse the qdisc in the body of a message.
///
/// # Errors
/// Returns an error if the body cannot be parsed.
pub fn parse(body: &[u8]) -> Result<Qdisc, SampleError> {
    let attributes = body.get(TCMSG_BYTES..).ok_or_else(|| wrong("a tcmsg", body))?;
    let mut counts = QdiscCounters {
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
            TCA_KIND => String::from_utf8_lossy(value).trim_end_matches('\0').clone_into(&mut counts.kind),
            TCA_STATS2 => parse_statistics(value, &mut counts)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(Qdisc { interface_index: u32_at(body, 4)?, counts })
}

fn parse_statistics(attributes: &[u8], counts: &mut QdiscCounters) -> Result<(), SampleError> {
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

/// Format a handle as tc(8) does: the major number, a colon, and the minor number unless it is 0.
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

// linux/rtnetlink.h
/// Message type of a qdisc.
pub const RTM_NEWQDISC: u16 = 36;
/// Message type of the request for qdiscs.
pub const RTM_GETQDISC: u16 = 38;
/// Length of the message header `tcmsg`, and of an empty request, in bytes.
pub const TCMSG_BYTES: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TC_H_ROOT: u32 = 0xffff_ffff;
// linux/gen_stats.h
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
