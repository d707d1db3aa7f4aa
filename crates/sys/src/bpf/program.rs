//! Creation of BPF maps and loading of BPF programs through bpf(2). Other modules attach the programs and
//! define their instructions.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{call, own, BpfError};
use crate::plain::plain;
use crate::{unsigned, Mapping, Plain};

const MAP_CREATE: u32 = 0;
const MAP_LOOKUP: u32 = 1;
const MAP_UPDATE: u32 = 2;
const PROG_LOAD: u32 = 5;
const OBJ_PIN: u32 = 6;
const PROG_GET_FD_BY_ID: u32 = 13;
const RAW_TRACEPOINT_OPEN: u32 = 17;
/// Attach type of an XDP program on an interface.
pub const ATTACH_TYPE_XDP: u32 = 37;
/// Attach type of an XDP program in an entry of a devmap.
const ATTACH_TYPE_XDP_DEVMAP: u32 = 33;
/// Map flag `BPF_F_MMAPABLE`: a process can map the map's values into its memory.
const MMAPABLE: u32 = 1 << 10;

/// A program type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramKind {
    Xdp,
    XdpOfTarget,
    RawTracepoint,
    SocketFilter,
    Classifier,
}

impl ProgramKind {
    /// Return the kernel's numbers for the program type and the attach type.
    const fn numbers(self) -> (u32, u32) {
        match self {
            Self::Xdp => (6, ATTACH_TYPE_XDP),
            Self::XdpOfTarget => (6, ATTACH_TYPE_XDP_DEVMAP),
            Self::RawTracepoint => (17, 0),
            Self::SocketFilter => (1, 0),
            Self::Classifier => (3, 0),
        }
    }
}

/// A map type.
#[derive(Debug, Clone, Copy)]
pub enum MapKind {
    /// A hash table, with keys of any length.
    Hash = 1,
    /// An array, with the index as key.
    Array = 2,
    /// A devmap: interfaces as targets of redirected frames.
    Devices = 14,
    /// An xskmap: `AF_XDP` sockets as targets of redirected frames.
    Sockets = 17,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MapSpec {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MapEntry {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ProgramSpec {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct TracepointSpec {
    name: u64,
    program: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct PinSpec {
    path: u64,
    object: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ById {
    id: u32,
    next_id: u32,
    flags: u32,
}

plain!(MapSpec, MapEntry, ProgramSpec, TracepointSpec, PinSpec, ById);

/// A BPF map. The kernel frees the map when this value is dropped and no program uses the map.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    value_bytes: usize,
}

impl Map {
    /// Create a map with `entries` values of `value_bytes` bytes and 4-byte keys.
    ///
    /// # Errors
    /// Returns the kernel's error if the kernel refuses to create the map.
    pub fn new(kind: MapKind, value_bytes: u32, entries: u32) -> Result<Self, BpfError> {
        Self::make(MapSpec { kind: kind as u32, key_bytes: 4, value_bytes, entries, flags: 0 })
    }

    /// Create a hash map with keys of `key_bytes` bytes and 4-byte values.
    ///
    /// # Errors
    /// Returns the kernel's error if the kernel refuses to create the map.
    pub fn keyed(key_bytes: u32, entries: u32) -> Result<Self, BpfError> {
        Self::make(MapSpec { kind: MapKind::Hash as u32, key_bytes, value_bytes: 4, entries, flags: 0 })
    }

    /// Create an array with one value, which this process can map into its memory.
    ///
    /// # Errors
    /// Returns the kernel's error if the kernel refuses to create the map.
    pub fn shared_with_us(value_bytes: u32) -> Result<Self, BpfError> {
        Self::make(MapSpec {
            kind: MapKind::Array as u32,
            key_bytes: 4,
            value_bytes,
            entries: 1,
            flags: MMAPABLE,
        })
    }

    /// Map the first `bytes` bytes of the map's values into the memory of this process.
    ///
    /// # Errors
    /// Returns an error if [`Self::shared_with_us`] did not create the map, or if memory is exhausted.
    pub fn map_memory(&self, bytes: usize) -> Result<Mapping, BpfError> {
        Mapping::shared(&self.fd, bytes, 0).map_err(BpfError::of("mapping a BPF map", "mmap"))
    }

    fn make(mut spec: MapSpec) -> Result<Self, BpfError> {
        let value_bytes = spec.value_bytes as usize;
        // SAFETY: the attributes hold no addresses.
        let fd = unsafe { call(MAP_CREATE, &mut spec) }.map_err(BpfError::of("making a BPF map", "bpf"))?;
        // SAFETY: the call returned a new descriptor.
        Ok(Self { fd: unsafe { own(fd) }, value_bytes })
    }

    /// Return the map's descriptor, for the instructions of a program.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Set the entry `key` of a map with 4-byte values.
    ///
    /// # Errors
    /// Returns an error if the map has no such entry.
    pub fn set_u32(&self, key: u32, value: u32) -> Result<(), BpfError> {
        self.entry(MAP_UPDATE, &key, &mut [value])
    }

    /// Set the entry `key` of a devmap: the kernel redirects frames to `interface` and runs `program` on each
    /// frame first.
    ///
    /// # Errors
    /// Returns an error if the entry or the interface does not exist, or if the interface does not support
    /// redirected frames.
    pub fn set_target(&self, key: u32, interface: u32, program: &Program) -> Result<(), BpfError> {
        self.entry(MAP_UPDATE, &key, &mut [interface, unsigned(program.as_raw_fd())])
    }

    /// Set the first entry of a map whose values have `N` 64-bit words.
    ///
    /// # Errors
    /// Returns the kernel's error if the kernel refuses the update.
    pub fn set_words<const N: usize>(&self, value: &[u64; N]) -> Result<(), BpfError> {
        self.entry(MAP_UPDATE, &0, &mut { *value })
    }

    /// Return the first entry of a map whose values have `N` 64-bit words.
    ///
    /// # Errors
    /// Returns the kernel's error if the kernel refuses the lookup.
    pub fn words<const N: usize>(&self) -> Result<[u64; N], BpfError> {
        let mut value = [0u64; N];
        self.entry(MAP_LOOKUP, &0, &mut value)?;
        Ok(value)
    }

    fn entry<T: Plain>(&self, command: u32, key: &u32, value: &mut [T]) -> Result<(), BpfError> {
        assert_eq!(size_of_val(value), self.value_bytes, "bytes of a value of this map");
        let (key, value) = (std::ptr::from_ref(key) as u64, value.as_mut_ptr() as u64);
        let mut entry = MapEntry { map: unsigned(self.fd()), unused: 0, key, value, flags: 0 };
        // SAFETY: the key has 4 bytes, as in all maps that are accessed through this function; the value has
        // the map's value size (checked above); both outlive the call.
        unsafe { call(command, &mut entry) }.map_err(BpfError::of("using a BPF map", "bpf"))?;
        Ok(())
    }
}

/// A loaded program.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Load the instructions of an XDP program for an interface. `name` identifies the program in listings
    /// such as `bpftool prog`.
    ///
    /// # Errors
    /// Returns an error if the verifier rejects the program or the process lacks permission.
    pub fn load(name: &'static str, code: &[[u8; 8]]) -> Result<Self, BpfError> {
        Self::load_kind(ProgramKind::Xdp, "loading an XDP program", name, code)
    }

    /// Load the instructions of an XDP program for a devmap entry, which runs on each frame that the entry
    /// redirects.
    ///
    /// # Errors
    /// Returns an error if the verifier rejects the program or the process lacks permission.
    pub fn load_of_target(name: &'static str, code: &[[u8; 8]]) -> Result<Self, BpfError> {
        Self::load_kind(ProgramKind::XdpOfTarget, "loading an XDP program", name, code)
    }

    /// Load the instructions of a classifier, which inspects an interface's packets in the network stack.
    ///
    /// # Errors
    /// Returns an error if the verifier rejects the program or the process lacks permission.
    pub fn load_classifier(name: &'static str, code: &[[u8; 8]]) -> Result<Self, BpfError> {
        Self::load_kind(ProgramKind::Classifier, "loading a classifier", name, code)
    }

    /// Load the instructions of a program for a raw tracepoint.
    ///
    /// # Errors
    /// Returns an error if the verifier rejects the program or the process lacks permission.
    pub fn load_tracing(name: &'static str, code: &[[u8; 8]]) -> Result<Self, BpfError> {
        Self::load_kind(ProgramKind::RawTracepoint, "loading a tracing program", name, code)
    }

    /// Load the instructions of a socket filter, whose return value decides how much of each packet the
    /// reader receives.
    ///
    /// # Errors
    /// Returns an error if the verifier rejects the program or the process lacks permission.
    pub fn load_filter(name: &'static str, code: &[[u8; 8]]) -> Result<Self, BpfError> {
        Self::load_kind(ProgramKind::SocketFilter, "loading a filter", name, code)
    }

    fn load_kind(
        kind: ProgramKind,
        doing: &'static str,
        name: &'static str,
        code: &[[u8; 8]],
    ) -> Result<Self, BpfError> {
        Self::try_load(kind, name, code, &mut []).map_err(|errno| {
            if matches!(errno.raw_os_error(), Some(libc::EPERM)) {
                return BpfError::of(doing, "bpf")(errno);
            }
            let mut log = vec![0; 65536];
            let errno = Self::try_load(kind, name, code, &mut log).err().unwrap_or(errno);
            let text = String::from_utf8_lossy(&log);
            let lines: Vec<_> = text.trim_end_matches('\0').lines().collect();
            let log = lines[lines.len().saturating_sub(6)..].join(" | ");
            BpfError::ProgramRefused { program: name, errno, log }
        })
    }

    fn try_load(kind: ProgramKind, name: &str, code: &[[u8; 8]], log: &mut [u8]) -> io::Result<Self> {
        let license = c"Apache-2.0";
        let (kind, attach_type) = kind.numbers();
        let mut spec = ProgramSpec {
            kind,
            instructions: u32::try_from(code.len()).unwrap_or(u32::MAX),
            code: code.as_ptr() as u64,
            license: license.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_bytes: u32::try_from(log.len()).unwrap_or_default(),
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            kernel_version: 0,
            flags: 0,
            name: [0; 16],
            interface: 0,
            attach_type,
        };
        for (place, byte) in spec.name[..15].iter_mut().zip(name.bytes()) {
            *place = byte;
        }
        // SAFETY: the code, the licence and the log outlive the call and have the stated lengths; the kernel
        // writes only to the log.
        let fd = unsafe { call(PROG_LOAD, &mut spec) }?;
        // SAFETY: the call returned a new descriptor.
        Ok(Self(unsafe { own(fd) }))
    }

    /// Attach the program to a raw tracepoint for as long as the returned descriptor is open.
    ///
    /// # Errors
    /// Returns an error if the tracepoint does not exist or the process lacks permission.
    pub fn trace(&self, tracepoint: &CStr) -> Result<OwnedFd, BpfError> {
        let program = unsigned(self.0.as_raw_fd());
        let mut spec = TracepointSpec { name: tracepoint.as_ptr() as u64, program, unused: 0 };
        // SAFETY: the name ends with a zero byte and outlives the call; the kernel only reads the name.
        let fd = unsafe { call(RAW_TRACEPOINT_OPEN, &mut spec) }
            .map_err(BpfError::of("attaching to a tracepoint", "bpf"))?;
        // SAFETY: the call returned a new descriptor.
        Ok(unsafe { own(fd) })
    }

    /// Return the program's descriptor.
    pub fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Open the loaded program with the given BPF program ID.
    ///
    /// # Errors
    /// Returns an error if no program has this ID.
    pub fn by_id(id: u32) -> io::Result<Self> {
        let mut spec = ById { id, next_id: 0, flags: 0 };
        // SAFETY: the attributes hold no addresses.
        let fd = unsafe { call(PROG_GET_FD_BY_ID, &mut spec) }?;
        // SAFETY: the call returned a new descriptor.
        Ok(Self(unsafe { own(fd) }))
    }
}

/// Pin the program with the ID `program_id` at a path in a BPF file system, so that the program outlives all processes.
///
/// # Errors
/// Returns an error if the program does not exist, if the path is outside a BPF file system, or if the path
/// exists.
pub fn keep_program(program_id: u32, path: &Path) -> io::Result<()> {
    let program = Program::by_id(program_id)?;
    let name = CString::new(path.as_os_str().as_bytes())?;
    let mut spec = PinSpec { path: name.as_ptr() as u64, object: unsigned(program.0.as_raw_fd()), flags: 0 };
    // SAFETY: the name ends with a zero byte and outlives the call; the kernel only reads the name.
    unsafe { call(OBJ_PIN, &mut spec) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::assembler::Assembler;
    use super::*;

    /// The verifier's message about an invalid program is quoted in the error.
    #[test]
    fn verifier_message_is_quoted_in_the_error() {
        // SAFETY: takes nothing and always succeeds.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let seen = Program::load("wrong", &Assembler::default().finish()).map(drop).unwrap_err();
        assert!(matches!(seen, BpfError::ProgramRefused { program: "wrong", .. }), "{seen:?}");
        let mut endless = Assembler::default();
        endless.compute(super::super::assembler::Operation::Move, super::super::assembler::Register::R0, 1);
        let seen = Program::load("wrong", &endless.finish()).map(drop).unwrap_err();
        assert!(
            matches!(&seen, BpfError::ProgramRefused { log, .. } if log.contains("last insn")),
            "{seen:?}"
        );
    }
}
