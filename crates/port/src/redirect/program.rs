//! The programs of a redirection, and the selection of frames by VLAN and address.

use std::net::IpAddr;
use std::os::fd::RawFd;
use std::str::FromStr;

use iolab_sys::bpf::{Assembler, Condition, Helper, Label, Operation, Register, Width};

use crate::hook::packet::{ethernet_type, read, ETHERNET_BYTES};
use crate::hook::{Hook, NEXT};

/// Offsets of the fields of struct `__sk_buff` (bytes).
mod context {
    pub(super) const PROTOCOL: i16 = 16;
    pub(super) const VLAN_PRESENT: i16 = 20;
    pub(super) const VLAN_TCI: i16 = 24;
    pub(super) const INGRESS_INTERFACE: i16 = 36;
    pub(super) const TC_INDEX: i16 = 44;
}

/// Offsets in the memory that the programs and this process share (bytes): time of the last heartbeat (ns), and packets
/// that were not redirected because the heartbeat was too old, on egress and on ingress.
pub(super) const BEAT_AT: i16 = 0;
pub(super) const PASSED_OUT_AT: i16 = 8;
pub(super) const PASSED_IN_AT: i16 = 16;
/// Maximum age of a heartbeat, after which frames are not redirected (ns).
pub(super) const MAX_BEAT_AGE_NS: i32 = 50_000_000;
/// Maximum time by which a heartbeat may appear to be in the future: the clock of its writer is interpolated (ns).
const CLOCK_ERROR_NS: i32 = 1_000_000;
/// Value of `tc_index` on frames that come back to the ingress hook of their port; only this hook sees the value.
const RETURNED: i32 = 0x1a0d;

const VLAN_BYTES: i32 = 4;
const VLAN_ID: i32 = 0xfff;
/// Flag `BPF_F_INGRESS` of `bpf_redirect`.
const TO_INGRESS: i32 = 1;
/// Stack offsets: addresses of a packet, and other fields.
const ADDRESSES: i16 = -32;
const FIELD: i16 = -40;

/// The frames that are redirected: IP packets whose source and destination are both in one of the networks. ARP and
/// neighbour discovery are not redirected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// VLAN ID of the frames; 0 for untagged frames.
    pub vlan: u16,
    /// Networks of the addresses.
    pub networks: Vec<Network>,
}

impl Selection {
    fn of_version(&self, is_six: bool) -> impl Iterator<Item = &Network> {
        self.networks.iter().filter(move |network| network.address.is_ipv6() == is_six)
    }
}

/// An IP network with a prefix of at least one bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// An address of the network.
    pub address: IpAddr,
    /// Length of the prefix (bits).
    pub prefix_bits: u8,
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = text.split_once('/').ok_or(())?;
        let (address, prefix_bits) = (address.parse::<IpAddr>().map_err(drop)?, bits.parse().map_err(drop)?);
        let max_bits = if address.is_ipv6() { 128 } else { 32 };
        if !(1..=max_bits).contains(&prefix_bits) {
            return Err(());
        }
        Ok(Self { address, prefix_bits })
    }
}

impl Network {
    /// Return the words of the address that the prefix covers, each with its mask, as a packet has them in memory.
    fn words(self) -> Vec<(i32, i32)> {
        let bytes = match self.address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let word = |(index, bytes): (usize, &[u8])| {
            let covered = usize::from(self.prefix_bits).saturating_sub(32 * index).min(32);
            let mask = if covered == 0 { 0 } else { u32::MAX << (32 - covered) }.to_be();
            let value = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            (iolab_sys::signed(value & mask), iolab_sys::signed(mask))
        };
        bytes.chunks(4).enumerate().map(word).collect()
    }
}

/// Assemble the program at a hook of the port: redirect selected frames to the interface `tap`, unless they come back
/// from it or the heartbeat is too old.
pub(super) fn at_port(hook: Hook, tap: u32, selection: &Selection, memory: RawFd) -> Vec<[u8; 8]> {
    use Register::{R0, R1, R2, R6};
    let mut program = Assembler::default();
    let (returned, pass, redirect) = (program.label(), program.label(), program.label());
    program.combine(Operation::Move, R6, R1);
    let passed_at = match hook {
        Hook::Egress => {
            // Only the kernel sets this field: locally sent packets have 0.
            program.load(Width::Word, R2, R6, context::INGRESS_INTERFACE);
            program.jump_if(R2, Condition::Equal, iolab_sys::signed(tap), returned);
            PASSED_OUT_AT
        }
        Hook::Ingress => {
            program.load(Width::Word, R2, R6, context::TC_INDEX);
            program.jump_if(R2, Condition::Equal, RETURNED, returned);
            PASSED_IN_AT
        }
    };
    select(&mut program, selection, pass);
    program.call(Helper::KtimeGetNs);
    program.set_map_value(R1, memory);
    program.load(Width::Double, R2, R1, BEAT_AT);
    program.combine(Operation::Subtract, R0, R2);
    program.compute(Operation::Add, R0, CLOCK_ERROR_NS);
    program.jump_if(R0, Condition::AtMost, MAX_BEAT_AGE_NS + CLOCK_ERROR_NS, redirect);
    program.compute(Operation::Move, R2, 1);
    program.add_atomically(R1, passed_at, R2);
    program.bind(pass);
    program.exit_with(NEXT);
    program.bind(redirect);
    emit_redirect(&mut program, tap, 0);
    program.bind(returned);
    if hook == Hook::Ingress {
        program.compute(Operation::Move, R2, 0);
        program.store(Width::Word, R6, context::TC_INDEX, R2);
    }
    program.exit_with(NEXT);
    program.finish()
}

/// Assemble the program at the ingress hook of a tap: send each frame on from the egress or ingress hook of `port`.
pub(super) fn at_tap(hook: Hook, port: u32) -> Vec<[u8; 8]> {
    use Register::{R1, R2};
    let mut program = Assembler::default();
    if hook == Hook::Ingress {
        program.compute(Operation::Move, R2, RETURNED);
        program.store(Width::Word, R1, context::TC_INDEX, R2);
    }
    emit_redirect(&mut program, port, if hook == Hook::Ingress { TO_INGRESS } else { 0 });
    program.finish()
}

fn emit_redirect(program: &mut Assembler, interface: u32, flags: i32) {
    program.compute(Operation::Move, Register::R1, iolab_sys::signed(interface));
    program.compute(Operation::Move, Register::R2, flags);
    program.call(Helper::Redirect);
    program.exit();
}

/// Emit code that continues with selected frames and jumps to `pass` with others. R7 becomes the offset of the IP
/// header.
fn select(program: &mut Assembler, selection: &Selection, pass: Label) {
    use Register::{R10, R2, R3, R6, R7};
    let (bare, inside, four) = (program.label(), program.label(), program.label());
    let vlan = i32::from(selection.vlan);
    program.compute(Operation::Move, R7, ETHERNET_BYTES);
    program.load(Width::Word, R2, R6, context::PROTOCOL);
    program.load(Width::Word, R3, R6, context::VLAN_PRESENT);
    program.jump_if(R3, Condition::Equal, 0, bare);
    program.load(Width::Word, R3, R6, context::VLAN_TCI);
    program.compute(Operation::And, R3, VLAN_ID);
    program.jump_if(R3, Condition::NotEqual, vlan, pass);
    program.jump(inside);
    program.bind(bare);
    if selection.vlan == 0 {
        program.jump(inside);
    } else {
        program.jump_if(R2, Condition::NotEqual, ethernet_type(0x8100), pass);
        // The tag is in the frame: ID and type of the content.
        program.compute(Operation::Move, R2, ETHERNET_BYTES);
        read(program, FIELD, VLAN_BYTES, pass);
        program.load(Width::Half, R3, R10, FIELD);
        program.compute(Operation::And, R3, ethernet_type(0x0fff));
        program.jump_if(R3, Condition::NotEqual, ethernet_type(selection.vlan), pass);
        program.load(Width::Half, R2, R10, FIELD + 2);
        program.compute(Operation::Move, R7, ETHERNET_BYTES + VLAN_BYTES);
    }
    program.bind(inside);
    let selected = program.label();
    // The kernel refuses programs with unreachable code, such as the comparisons of a version without a network.
    let [has_four, has_six] = [false, true].map(|is_six| selection.of_version(is_six).next().is_some());
    if has_four {
        program.jump_if(R2, Condition::Equal, ethernet_type(0x0800), four);
    }
    if has_six {
        program.jump_if(R2, Condition::NotEqual, ethernet_type(0x86dd), pass);
        not_about_neighbours(program, pass);
        of_networks(program, selection, true, pass);
        program.jump(selected);
    } else {
        program.jump(pass);
    }
    if has_four {
        program.bind(four);
        of_networks(program, selection, false, pass);
    }
    program.bind(selected);
}

/// Emit code that jumps to `pass` if an IPv6 packet belongs to neighbour discovery (RFC 4861: types 133 to 137).
fn not_about_neighbours(program: &mut Assembler, pass: Label) {
    use Register::{R10, R2, R7};
    const NEXT_HEADER_AT: i32 = 6;
    const HEADER_BYTES: i32 = 40;
    const ICMP: i32 = 58;
    let other = program.label();
    program.combine(Operation::Move, R2, R7);
    program.compute(Operation::Add, R2, NEXT_HEADER_AT);
    read(program, FIELD, 1, pass);
    program.load(Width::Byte, R2, R10, FIELD);
    program.jump_if(R2, Condition::NotEqual, ICMP, other);
    program.combine(Operation::Move, R2, R7);
    program.compute(Operation::Add, R2, HEADER_BYTES);
    read(program, FIELD, 1, pass);
    program.load(Width::Byte, R2, R10, FIELD);
    program.compute(Operation::Subtract, R2, 133);
    program.jump_if(R2, Condition::AtMost, 4, pass);
    program.bind(other);
}

/// Emit code that jumps to `pass` unless source and destination of a packet are in the networks.
fn of_networks(program: &mut Assembler, selection: &Selection, is_six: bool, pass: Label) {
    use Register::{R10, R2, R3, R7};
    let (addresses_at, address_bytes) = if is_six { (8, 16) } else { (12, 4) };
    program.combine(Operation::Move, R2, R7);
    program.compute(Operation::Add, R2, addresses_at);
    read(program, ADDRESSES, 2 * i32::from(address_bytes), pass);
    for address in [ADDRESSES, ADDRESSES + address_bytes] {
        let found = program.label();
        for network in selection.of_version(is_six) {
            let next = program.label();
            for (at, (value, mask)) in (address..).step_by(4).zip(network.words()) {
                if mask != 0 {
                    program.load(Width::Word, R3, R10, at);
                    program.compute(Operation::And, R3, mask);
                    program.jump_if_word(R3, Condition::NotEqual, value, next);
                }
            }
            program.jump(found);
            program.bind(next);
        }
        program.jump(pass);
        program.bind(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_covers_the_words_of_its_prefix() {
        let words = |text: &str, prefix_bits: u8| {
            format!("{text}/{prefix_bits}")
                .parse::<Network>()
                .unwrap()
                .words()
                .iter()
                .map(|&(value, mask)| [value, mask].map(|word| u32::from_be(iolab_sys::unsigned(word))))
                .collect::<Vec<_>>()
        };
        assert_eq!("198.18.0.0/33".parse::<Network>(), Err(()));
        assert_eq!(words("198.18.3.7", 15), [[0xc612_0000, 0xfffe_0000]]);
        assert_eq!("10.0.0.1/0".parse::<Network>(), Err(()));
        assert_eq!(
            words("fd00:1:2::9", 48),
            [[0xfd00_0001, u32::MAX], [0x0002_0000, 0xffff_0000], [0, 0], [0, 0]]
        );
    }
}
