//! Settings and statistics of an interface's driver through the ethtool ioctl: queues, offloads, rings, and
//! statistics under the driver's names. All functions work in the network namespace of the calling thread.
//! Only `set_features` changes a setting.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::socket;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_STATS: u32 = 1;
const ETH_SS_FEATURES: u32 = 4;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const NAME_BYTES: usize = 32;
/// Offloads: the short name of `ethtool -K`, the ethtool command that reads the state, and the bit of the
/// offload in the result.
const OFFLOADS: [(&str, u32, u32); 7] = [
    ("rx", 0x14, 1),
    ("tx", 0x16, 1),
    ("sg", 0x18, 1),
    ("tso", 0x1e, 1),
    ("gso", 0x23, 1),
    ("gro", 0x2b, 1),
    ("lro", 0x25, 1 << 15),
];

/// Room for additional statistics, in entries. The kernel writes all current statistics and ignores the size
/// of the buffer; the statistics must still fit if the interface gets more queues between two requests.
const SPARE: usize = 1024;

/// Return the driver statistics of an interface (`ethtool -S`); empty if its driver has none or the interface
/// does not exist.
pub fn driver_statistics(name: &str) -> Vec<(String, u64)> {
    read(name).unwrap_or_default()
}

fn read(name: &str) -> Option<Vec<(String, u64)>> {
    let socket = socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok()?;
    // SAFETY: the result has a fixed size (`GSSET_INFO`), or contains `count` statistics; the buffers have room for
    // `SPARE` more.
    let ask = |words: &mut [u32]| unsafe { ethtool(&socket, name, words) }.ok();
    // cmd, reserved, mask of sets (two words), length of the set
    let mut sets = [ETHTOOL_GSSET_INFO, 0, 0, 0, 0];
    let (low, high) = if cfg!(target_endian = "little") { (2, 3) } else { (3, 2) };
    (sets[low], sets[high]) = (1 << ETH_SS_STATS, 0);
    ask(&mut sets)?;
    let count = usize::try_from(sets[4]).ok().filter(|count| (1..=65_536).contains(count))?;
    // cmd, set, length, names
    let mut names = vec![0; 3 + (count + SPARE) * NAME_BYTES / 4];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_STATS, sets[4]]);
    ask(&mut names)?;
    // cmd, length, values of two words each
    let mut values = vec![0; 2 + (count + SPARE) * 2];
    values[..2].copy_from_slice(&[ETHTOOL_GSTATS, sets[4]]);
    ask(&mut values)?;
    let named = names[3..].chunks_exact(NAME_BYTES / 4).zip(values[2..].chunks_exact(2)).take(count);
    let named = named.map(|(name, value)| {
        let bytes: Vec<u8> =
            name.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
        let [a, b, c, d] = value[0].to_ne_bytes();
        let [e, f, g, h] = value[1].to_ne_bytes();
        (String::from_utf8_lossy(&bytes).into_owned(), u64::from_ne_bytes([a, b, c, d, e, f, g, h]))
    });
    Some(named.filter(|(name, _)| !name.is_empty()).collect())
}

/// Return the driver settings of an interface; empty if the interface does not exist. `offloads` lists the
/// enabled offloads under the short names of `ethtool -K`. `rings` gives the sizes of the receive and
/// transmit rings in frames, if the interface has rings.
pub fn driver_settings(name: &str) -> Vec<(&'static str, String)> {
    let Ok(socket) = socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) else { return Vec::new() };
    // SAFETY: the results of these commands have a fixed size: a value of one word, or struct
    // ethtool_ringparam.
    let ask = |words: &mut [u32]| unsafe { ethtool(&socket, name, words) }.ok();
    let flag = |question: u32| {
        let mut value = [question, 0];
        ask(&mut value).map(|()| value[1])
    };
    let mut found = Vec::new();
    let states: Vec<_> = OFFLOADS.iter().map(|&(name, question, bit)| (name, flag(question), bit)).collect();
    if states.iter().any(|(_, state, _)| state.is_some()) {
        let on = states.iter().filter(|(_, state, bit)| state.is_some_and(|state| state & bit != 0));
        found.push(("offloads", on.map(|&(name, ..)| name).collect::<Vec<_>>().join(" ")));
    }
    // cmd, {rx,rx_mini,rx_jumbo,tx}_max_pending, {rx,rx_mini,rx_jumbo,tx}_pending
    let mut rings = [0u32; 9];
    rings[0] = ETHTOOL_GRINGPARAM;
    if ask(&mut rings).is_some() && (rings[1], rings[4]) != (0, 0) {
        found.push(("rings", format!("{} {}", rings[5], rings[8])));
    }
    found
}

/// Return the numbers of receive and transmit queues of an interface (`ETHTOOL_GCHANNELS`); 1 each if its
/// driver does not report channels.
pub fn queues(name: &str) -> (u32, u32) {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let Ok(socket) = socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) else { return (1, 1) };
    // cmd, max_{rx,tx,other,combined}, {rx,tx,other,combined}
    let mut channels = [0u32; 9];
    channels[0] = ETHTOOL_GCHANNELS;
    // SAFETY: `channels` has the size of struct ethtool_channels, which is the size of the result.
    match unsafe { ethtool(&socket, name, &mut channels) } {
        Ok(()) => ((channels[5] + channels[8]).max(1), (channels[6] + channels[8]).max(1)),
        Err(_) => (1, 1),
    }
}

/// Enable and disable features of an interface by the names of `ethtool -k`. Unknown and fixed features stay
/// unchanged.
///
/// # Errors
/// Returns an error if the interface does not exist or the kernel refuses the change.
pub fn set_features(name: &str, switches: &[(&str, bool)]) -> io::Result<()> {
    let socket = socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let mut sets = [ETHTOOL_GSSET_INFO, 0, 0, 0, 0];
    let (low, high) = if cfg!(target_endian = "little") { (2, 3) } else { (3, 2) };
    (sets[low], sets[high]) = (1 << ETH_SS_FEATURES, 0);
    // SAFETY: the command requests the length of one set, which is one word.
    unsafe { ethtool(&socket, name, &mut sets) }?;
    let count =
        usize::try_from(sets[4]).ok().filter(|&count| count <= 4096).ok_or(io::ErrorKind::InvalidData)?;
    let mut names = vec![0; 3 + count * NAME_BYTES / 4];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, sets[4]]);
    // SAFETY: a kernel has a fixed number of features, and `names` has room for all of them.
    unsafe { ethtool(&socket, name, &mut names) }?;
    // cmd, number of blocks, and for each block of 32 features: mask of the features to change, and their new
    // values
    let mut asked = vec![0u32; 2 + count.div_ceil(32) * 2];
    asked[..2].copy_from_slice(&[ETHTOOL_SFEATURES, u32::try_from(count.div_ceil(32)).unwrap_or(0)]);
    for (index, words) in names[3..].chunks_exact(NAME_BYTES / 4).enumerate() {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0);
        let bytes: Vec<u8> = bytes.collect();
        let Some((_, on)) = switches.iter().find(|(switch, _)| switch.as_bytes() == bytes) else { continue };
        let (block, bit) = (2 + index / 32 * 2, 1 << (index % 32));
        asked[block] |= bit;
        asked[block + 1] |= if *on { bit } else { 0 };
    }
    // SAFETY: the kernel reads the stated number of blocks and writes none.
    unsafe { ethtool(&socket, name, &mut asked) }
}

/// Run an ethtool command on an interface; the kernel writes the result into `words`, over the command.
///
/// # Safety
/// `words` must have room for the whole result of the command.
unsafe fn ethtool(fd: &OwnedFd, name: &str, words: &mut [u32]) -> io::Result<()> {
    let mut request = request_for(name).ok_or(io::ErrorKind::InvalidInput)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request names an interface and points to `words`, which outlives the call; the caller
    // guarantees its size.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Return an empty ioctl request for the interface `name`; `None` if the name is too long for an interface.
pub(crate) fn request_for(name: &str) -> Option<libc::ifreq> {
    // SAFETY: an ifreq consists of integers and a pointer; zeros (a null pointer) are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of statistics is empty for an interface without statistics and for a missing interface.
    #[test]
    fn missing_driver_statistics_are_empty() {
        assert_eq!(driver_statistics("nothing0"), []);
        assert_eq!(driver_statistics("a name that is far too long"), []);
        assert_eq!(driver_settings("nothing0"), []);
    }

    /// The loopback interface has segmentation offload and no rings.
    #[test]
    fn enabled_offloads_are_named() {
        let found = driver_settings("lo");
        let [("offloads", on)] = &found[..] else { panic!("{found:?}") };
        assert!(on.split(' ').any(|name| name == "tso"), "{on}");
    }
}
