//! Packet drops by reason, under the kernel's names. The reason numbers depend on the kernel version, so the
//! names are read from the kernel's type information (BTF), or else from the tracepoint's format. The first
//! reading starts the BPF program that counts the drops; it counts until this process exits.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use iolab_protocol::observations::DropCounters;
use iolab_sys::bpf::DropReasons;

const BTF: &str = "/sys/kernel/btf/vmlinux";
const FORMATS: [&str; 2] = [
    "/sys/kernel/tracing/events/skb/kfree_skb/format",
    "/sys/kernel/debug/tracing/events/skb/kfree_skb/format",
];
const PREFIX: &str = "SKB_DROP_REASON_";

/// Names of drop reasons by number.
pub type Names = BTreeMap<u32, String>;

struct Counting {
    reasons: DropReasons,
    names: Names,
}

fn counting() -> Option<&'static Counting> {
    static COUNTING: OnceLock<Option<Counting>> = OnceLock::new();
    let start = || Some(Counting { reasons: DropReasons::new().ok()?, names: names() });
    COUNTING.get_or_init(start).as_ref()
}

/// Whether the kernel permits this process to count drop reasons.
pub fn available() -> bool {
    counting().is_some()
}

/// Return the drops of the whole kernel since counting started, by reason; `None` if the kernel does not
/// permit it.
pub fn read() -> Option<DropCounters> {
    let Counting { reasons, names } = counting()?;
    let name = |number: u32| match names.get(&number) {
        Some(name) => name.clone(),
        None if number == DropReasons::OTHER => "OF_A_MODULE".to_owned(),
        None => format!("REASON_{number}"),
    };
    let counters = reasons.counts().ok()?.into_iter().map(|(number, count)| (name(number), count)).collect();
    Some(DropCounters { place: "reason".to_owned(), name: "kernel".to_owned(), counters })
}

fn names() -> Names {
    let btf = std::fs::read(BTF).ok().and_then(|bytes| of_types(&bytes));
    let format = || FORMATS.iter().find_map(|path| std::fs::read_to_string(path).ok());
    btf.or_else(|| format().map(|text| of_format(&text))).unwrap_or_default()
}

/// Parse the names of drop reasons in a kernel's type information (Linux Documentation/bpf/btf.rst).
pub fn of_types(btf: &[u8]) -> Option<Names> {
    let word = |at: usize| btf.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let place = |at: usize| word(at).and_then(|value| usize::try_from(value).ok());
    if btf.get(..2)? != 0xeb9f_u16.to_le_bytes() {
        return None;
    }
    let header = place(4)?;
    let (types, strings) = (header + place(8)?, header + place(16)?);
    let end = types + place(12)?;
    let string = |offset: usize| {
        let bytes = btf.get(strings + offset..)?;
        std::str::from_utf8(&bytes[..bytes.iter().position(|&byte| byte == 0)?]).ok()
    };
    let mut at = types;
    while at + 12 <= end {
        let info = place(at + 4)?;
        let (kind, count) = ((info >> 24) & 0x1f, info & 0xffff);
        if kind == ENUM && string(place(at)?)? == "skb_drop_reason" {
            let member = |index: usize| {
                let here = at + 12 + 8 * index;
                let name = string(place(here)?)?;
                Some((word(here + 4)?, name.strip_prefix(PREFIX).unwrap_or(name).to_owned()))
            };
            return (0..count).map(member).collect();
        }
        at += 12 + length_after(kind, count);
    }
    None
}

const ENUM: usize = 6;

/// Return the number of bytes that follow the three words of a BTF type.
fn length_after(kind: usize, count: usize) -> usize {
    match kind {
        1 | 14 | 17 => 4,              // an integer, a variable, a tag
        3 => 12,                       // an array
        4 | 5 | 15 | 19 => 12 * count, // structures, unions, sections, 64-bit enumerations
        ENUM | 13 => 8 * count,        // enumerations, function parameters
        _ => 0,
    }
}

/// Parse the names of drop reasons in the tracepoint's format: `{ 2, "NOT_SPECIFIED" }, { 3, "NO_SOCKET" }`.
pub fn of_format(text: &str) -> Names {
    let pairs = text.split('{').skip(1).filter_map(|pair| {
        let (number, name) = pair.split_once('}')?.0.split_once(',')?;
        let name = name.trim().strip_prefix('"')?.strip_suffix('"')?;
        Some((number.trim().parse().ok()?, name.strip_prefix(PREFIX).unwrap_or(name).to_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_reason_names_are_parsed_from_the_tracepoint_format() {
        let text = "print fmt: \"reason: %s\", __print_symbolic(REC->reason, { 2, \"NOT_SPECIFIED\" }, { 3, \
                    \"NO_SOCKET\" })";
        let expected = [(2, "NOT_SPECIFIED".to_owned()), (3, "NO_SOCKET".to_owned())];
        assert_eq!(of_format(text), Names::from(expected));
        assert_eq!(of_format("nothing of the kind"), Names::new());
    }

    #[test]
    fn truncated_type_information_gives_no_drop_reason_names() {
        assert_eq!(of_types(b""), None);
        assert_eq!(of_types(&[0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0]), None);
    }

    #[test]
    fn type_information_of_the_running_kernel_contains_common_drop_reason_names() {
        let Ok(btf) = std::fs::read(BTF) else { return };
        let names = of_types(&btf).unwrap();
        for expected in ["NOT_SPECIFIED", "NO_SOCKET", "UDP_CSUM"] {
            assert!(names.values().any(|name| name == expected), "{expected}: {names:?}");
        }
    }

    #[test]
    fn datagram_without_a_listener_is_counted_under_the_drop_reason_no_socket() {
        let Some(before) = read() else { return };
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", nobody).unwrap();
        let count = |read: &DropCounters| read.counters.get("NO_SOCKET").copied().unwrap_or_default();
        assert!(names().is_empty() || count(&read().unwrap()) > count(&before));
    }
}
