//! Requests for disk programs. `contract/disk-v1.md` defines them.

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
    /// Run the phases of bonnie++: single bytes, blocks, rewriting, seeks, small files.
    #[serde(rename = "bonnie++")]
    Bonnie(Bonnie),
    /// Read a device from its start; read the same 2 MiB repeatedly.
    #[serde(rename = "hdparm")]
    Hdparm(Hdparm),
    /// Write stamped blocks, and report each acknowledged flush.
    #[serde(rename = "stamp")]
    Stamp(Stamp),
    /// Verify which stamped blocks were kept.
    #[serde(rename = "verify")]
    Verify(Verify),
    /// Drop a file or device from this kernel's page cache, and measure its remaining pages.
    #[serde(rename = "cool")]
    Cool(Cool),
    /// Check whether a device may be overwritten.
    #[serde(rename = "claim")]
    Claim(Claim),
    /// Check whether the server behind a disk responds.
    #[serde(rename = "ping")]
    Ping(Ping),
    /// Examine an existing block device.
    #[serde(rename = "examine")]
    Examine(Examine),
    /// Examine all block devices.
    #[serde(rename = "disks")]
    Disks(Disks),
    /// Check that a device is the one that was recorded.
    #[serde(rename = "same")]
    Same(Same),
}

/// The request for all block devices, which has no fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disks {}

/// Content of the written data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// Content by the program's definition: the same in every buffer, or almost all zeros.
    #[default]
    Defined,
    /// Content that is incompressible and differs in every block.
    Incompressible,
}

/// Requested state of this kernel's page cache at the start of a phase that reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// The state in which the previous phase left the cache.
    #[default]
    AsLeft,
    /// No cached pages: the file is dropped from the cache, and the result is measured.
    Cold,
}

/// A request for thput-fsys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thput {
    /// Folder in which its file is created.
    pub folder: PathBuf,
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// Buffer sizes in bytes; each has one pass.
    #[serde(default = "thput_buffers")]
    pub buffers_bytes: Vec<u64>,
    /// Content of the written data.
    #[serde(default)]
    pub data: Data,
    /// State of the page cache before reading.
    #[serde(default)]
    pub cache: Cache,
    /// Backing files of the disk; this kernel may cache their blocks. The files are dropped from the page cache before
    /// each phase that reads.
    #[serde(default)]
    pub behind: Vec<PathBuf>,
    /// Whether I/O bypasses the page cache (`O_DIRECT`).
    #[serde(default)]
    pub direct: bool,
}

/// Return the default buffer sizes of thput-fsys in bytes: 512 B to 1 MiB.
pub fn thput_buffers() -> Vec<u64> {
    vec![512, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20]
}

/// Version of bonnie++ whose definitions apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edition {
    /// Single bytes through the C library over the whole file; no flushes; 3 seekers.
    #[serde(rename = "1.03")]
    V1_03,
    /// Single bytes by system calls over 3 MiB; each phase ends with a flush; 5 seekers.
    #[serde(rename = "2.00")]
    V2_00,
}

/// A request for bonnie++.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bonnie {
    /// Folder in which its files are created.
    pub folder: PathBuf,
    /// Size of the large file in bytes.
    pub size_bytes: u64,
    /// Version whose definitions apply.
    pub edition: Edition,
    /// Number of small files to create, query and delete; 0 skips these phases.
    #[serde(default = "bonnie_files")]
    pub files: u32,
    /// Content of the written data.
    #[serde(default)]
    pub data: Data,
    /// State of the page cache before phases that read.
    #[serde(default)]
    pub cache: Cache,
    /// Backing files of the disk; this kernel may cache their blocks. The files are dropped from the page cache before
    /// each phase that reads.
    #[serde(default)]
    pub behind: Vec<PathBuf>,
    /// Seed of the random seek positions.
    #[serde(default)]
    pub seed: u64,
    /// Wait between opening the file for the seeks and the first seek, in ms.
    #[serde(default = "bonnie_rest_ms")]
    pub rest_ms: u64,
}

/// Return the time for which both editions of bonnie++ wait before the seeks, in ms. Because of this wait, the disk's
/// pending work and its performance after idle time do not affect the seeks.
const fn bonnie_rest_ms() -> u64 {
    3000
}

/// Return the default number of small files of bonnie++: `-n 16`, in units of 1024.
const fn bonnie_files() -> u32 {
    16 * 1024
}

/// A timing of hdparm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// `-T`: reads the same 2 MiB from the page cache.
    Cached,
    /// `-t`: reads from the start of the device.
    Buffered,
}

/// A request for hdparm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hdparm {
    /// The device, or a file, which is only read.
    pub device: PathBuf,
    /// Timings in the order of their execution.
    pub timings: Vec<Timing>,
    /// State of the page cache before the buffered timing.
    #[serde(default)]
    pub cache: Cache,
    /// Backing files of the disk; this kernel may cache their blocks. The files are dropped from the page cache before
    /// each phase that reads.
    #[serde(default)]
    pub behind: Vec<PathBuf>,
    /// Whether reads bypass the page cache (`O_DIRECT`).
    #[serde(default)]
    pub direct: bool,
}

/// Target of stamped blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Target {
    /// A file in a folder of this user. The file is created for writing, and must exist for verification.
    File {
        /// Folder of the file.
        folder: PathBuf,
        /// Name of the file in the folder.
        name: String,
    },
    /// An unused device.
    Device(Claim),
    /// An inherited descriptor of a device that was claimed for the program.
    Opened {
        /// Number of the descriptor.
        descriptor: i32,
    },
}

/// A block device that the user has released for overwriting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Path of the device node.
    pub device: PathBuf,
    /// Serial number or WWN as given by the user.
    pub serial: String,
    /// Whether the user permits the loss of all data on the device.
    #[serde(default)]
    pub claim: bool,
}

/// A request to write stamped blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// Target of the blocks.
    pub target: Target,
    /// Identifier of the run in the stamps.
    pub run: u64,
    /// Block size in bytes.
    pub block_bytes: u64,
    /// Number of blocks in one pass over the target.
    pub blocks: u64,
    /// Number of blocks between two flushes.
    pub batch: u64,
    /// Number of passes; each pass rewrites all blocks.
    pub passes: u64,
}

/// A request to verify stamped blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// The request that wrote the blocks.
    pub stamp: Stamp,
    /// Number of acknowledged batches.
    pub acknowledged: u64,
    /// Backing file of the target. The blocks of this file are read from the disk below its file system, as they would
    /// be after a crash of the storage host. `None`: the blocks are read from the target itself.
    #[serde(default)]
    pub below: Option<PathBuf>,
}

/// A request to drop a file or device from the page cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cool {
    /// Path of the file or device.
    pub path: PathBuf,
    /// Whether to drop the pages; false only measures.
    pub drop: bool,
}

/// A request to examine an existing block device. Nothing is written to the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Examine {
    /// Path of the device.
    pub device: PathBuf,
    /// Identity that the device must have. `None`: any identity is accepted.
    #[serde(default)]
    pub expected: Option<String>,
    /// New file for the record of the device. `None`: the device is not recorded.
    #[serde(default)]
    pub record: Option<PathBuf>,
    /// Identities of the devices to which the user permits writing.
    #[serde(default)]
    pub allowed: Vec<String>,
    /// Identities of the devices whose content the user permits iolab to destroy.
    #[serde(default)]
    pub destroyed: Vec<String>,
}

/// A request to check that a device is the one that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Same {
    /// Path of the record.
    pub record: PathBuf,
}

/// A request to check the server behind a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// The server to check.
    pub peer: Peer,
    /// Timeout of the response in ms.
    pub timeout_ms: u64,
}

/// The server behind a disk, and the method by which to check the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Peer {
    /// Check of the state of the server's process.
    Process {
        /// Path of the PID file.
        pid_file: PathBuf,
        /// A complete word of the server's command line, or a variable of its environment as NAME=VALUE.
        mark: String,
    },
    /// Check with a new iSCSI connection.
    Iscsi {
        /// Address of the portal.
        address: SocketAddr,
    },
    /// Check with a new NVMe/TCP connection.
    NvmeTcp {
        /// Address of the NVMe/TCP port.
        address: SocketAddr,
    },
    /// Check with a new NBD connection.
    Nbd {
        /// Address of the server.
        address: SocketAddr,
    },
    /// Check with the QMP monitor of a QEMU program.
    Qmp {
        /// Path of the monitor's socket.
        socket: PathBuf,
    },
}
