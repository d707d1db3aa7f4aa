//! What a disk program is asked for. `contract/disk-v1.md` defines it.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One program with its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "program")]
pub enum Request {
    /// Write, flush and read a file with buffers of several sizes.
    #[serde(rename = "thput-fsys")]
    Thput(Thput),
    /// Single bytes, blocks, rewriting, seeks, small files.
    #[serde(rename = "bonnie++")]
    Bonnie(Bonnie),
    /// Read a device from its beginning; read the same 2 MiB again and again.
    #[serde(rename = "hdparm")]
    Hdparm(Hdparm),
    /// Write stamped blocks, and tell of each flush that was acknowledged.
    #[serde(rename = "stamp")]
    Stamp(Stamp),
    /// Look which stamped blocks are there.
    #[serde(rename = "verify")]
    Verify(Verify),
    /// Drop a file or device from this kernel's page cache, and look what stayed.
    #[serde(rename = "cool")]
    Cool(Cool),
    /// Look whether a device may be written.
    #[serde(rename = "claim")]
    Claim(Claim),
    /// Ask whether the server behind a disk still answers.
    #[serde(rename = "ping")]
    Ping(Ping),
}

/// What the bytes are that are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// As the program's definition has it: the same in every buffer, or nearly all zeros.
    #[default]
    Defined,
    /// Neither compressible nor the same in two blocks.
    Incompressible,
}

/// What this kernel's page cache holds of the file when a reading phase begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// What the phase before left in it.
    #[default]
    AsLeft,
    /// Nothing: dropped, and looked at.
    Cold,
}

/// thput-fsys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thput {
    /// Where its file is made.
    pub folder: PathBuf,
    /// Of the file. (bytes)
    pub size_bytes: u64,
    /// One pass for each. (bytes)
    #[serde(default = "thput_buffers")]
    pub buffers_bytes: Vec<u64>,
    /// What is written.
    #[serde(default)]
    pub data: Data,
    /// Before reading.
    #[serde(default)]
    pub cache: Cache,
    /// Files behind the disk of which this kernel may keep blocks: they are emptied before each phase that reads.
    #[serde(default)]
    pub behind: Vec<PathBuf>,
    /// Past the page cache (`O_DIRECT`).
    #[serde(default)]
    pub direct: bool,
}

/// The buffers of thput-fsys: 512 B to 1 MiB.
pub fn thput_buffers() -> Vec<u64> {
    vec![512, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20]
}

/// Whose definitions of bonnie++'s columns hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edition {
    /// Characters by the C library over the whole file; nothing is flushed; 3 seekers.
    #[serde(rename = "1.03")]
    V1_03,
    /// Characters by system calls over 3 MiB; each phase ends with a flush; 5 seekers.
    #[serde(rename = "2.00")]
    V2_00,
}

/// bonnie++.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bonnie {
    /// Where its files are made.
    pub folder: PathBuf,
    /// Of the large file. (bytes)
    pub size_bytes: u64,
    /// Whose definitions.
    pub edition: Edition,
    /// Small files that are made, looked at and deleted; 0: that part is left out.
    #[serde(default = "bonnie_files")]
    pub files: u32,
    /// What is written.
    #[serde(default)]
    pub data: Data,
    /// Before phases that read.
    #[serde(default)]
    pub cache: Cache,
    /// Files behind the disk of which this kernel may keep blocks: they are emptied before each phase that reads.
    #[serde(default)]
    pub behind: Vec<PathBuf>,
    /// Of where the seeks go.
    #[serde(default)]
    pub seed: u64,
    /// Between opening the file for the seeks and the first of them. (ms)
    #[serde(default = "bonnie_rest_ms")]
    pub rest_ms: u64,
}

/// bonnie++'s own, in both editions: what a disk has left to do of the phase before, or may do at once after some idle
/// time, counts for none of the seeks then.
const fn bonnie_rest_ms() -> u64 {
    3000
}

/// bonnie++'s own: `-n 16`, in units of 1024.
const fn bonnie_files() -> u32 {
    16 * 1024
}

/// hdparm's timings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// `-T`: the same 2 MiB out of the page cache.
    Cached,
    /// `-t`: from the beginning of the device on.
    Buffered,
}

/// hdparm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hdparm {
    /// The device, or a file; it is only read.
    pub device: PathBuf,
    /// In this order.
    pub timings: Vec<Timing>,
    /// Before the buffered timing.
    #[serde(default)]
    pub cache: Cache,
    /// Files behind the disk of which this kernel may keep blocks: they are emptied before each phase that reads.
    #[serde(default)]
    pub behind: Vec<PathBuf>,
    /// Past the page cache (`O_DIRECT`).
    #[serde(default)]
    pub direct: bool,
}

/// Where stamps are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Target {
    /// A file of that name in a folder of ours: made for writing, found for verifying.
    File {
        /// where
        folder: PathBuf,
        /// its name there
        name: String,
    },
    /// A device that nothing uses.
    Device(Claim),
    /// What the program was started with: a device that was claimed for it.
    Opened {
        /// its number
        descriptor: i32,
    },
}

/// A block device that the user gives up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its node.
    pub device: PathBuf,
    /// Its serial number or WWN, as the user knows it.
    pub serial: String,
    /// The user says that all on it may be lost.
    #[serde(default)]
    pub claim: bool,
}

/// Write stamped blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// Where.
    pub target: Target,
    /// Which run's they are.
    pub run: u64,
    /// Of one block. (bytes)
    pub block_bytes: u64,
    /// Blocks of one pass over the target.
    pub blocks: u64,
    /// Blocks between two flushes.
    pub batch: u64,
    /// Passes; each writes every block again.
    pub passes: u64,
}

/// Look which stamped blocks are there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// The same request that wrote them.
    pub stamp: Stamp,
    /// Batches that were acknowledged.
    pub acknowledged: u64,
    /// The file that the stamped store is: its blocks are read from the disk below its file system, as a crash of its
    /// computer would leave them. None: they are read where they were written.
    #[serde(default)]
    pub below: Option<PathBuf>,
}

/// Drop a file or device from the page cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cool {
    /// The file or device.
    pub path: PathBuf,
    /// False: only look.
    pub drop: bool,
}

/// A question to the server behind a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// Who is asked.
    pub peer: Peer,
    /// How long an answer may take. (ms)
    pub timeout_ms: u64,
}

/// The server behind a disk, and how it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Peer {
    /// By the state of its process.
    Process {
        /// Where its number is written.
        pid_file: PathBuf,
        /// A whole word of its command line, or a variable of its environment as NAME=VALUE.
        mark: String,
    },
    /// A new iSCSI connection.
    Iscsi {
        /// Of the portal.
        address: SocketAddr,
    },
    /// A new NVMe/TCP connection.
    NvmeTcp {
        /// Of the port.
        address: SocketAddr,
    },
    /// A new NBD connection.
    Nbd {
        /// Of the server.
        address: SocketAddr,
    },
    /// The monitor of one of QEMU's programs.
    Qmp {
        /// Its socket.
        socket: PathBuf,
    },
}
