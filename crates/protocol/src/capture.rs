//! The parameters and results of `capture.*`: the newest frames of an interface as a pcapng file.

use serde::{Deserialize, Serialize};

/// Which frames are kept: those for which all that is given holds; nothing given keeps all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureFilter {
    /// The number of their protocol above IP (IANA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// One of them is their source or their destination; none: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<std::net::IpAddr>,
    /// Their source port or their destination port, of TCP or UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Of `capture.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureStart {
    /// The controller's name for it.
    pub id: String,
    /// The interface's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The interface.
    pub interface: String,
    /// What is kept of each frame, from its beginning (bytes).
    pub snap_bytes: u32,
    /// Memory for frames; the oldest make room for new ones (bytes).
    pub ring_bytes: usize,
    /// Which frames are kept.
    #[serde(default)]
    pub filter: CaptureFilter,
}

/// Result of `capture.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureStarted {
    /// From when on frames are kept (ns).
    pub begin_ns: u64,
}

/// Of `capture.stop` and `capture.close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureName {
    /// The capture.
    pub id: String,
}

/// Result of `capture.stop`. A super-frame of the stack is one frame here, as every capture shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Captured {
    /// Frames in the file.
    pub kept_frames: u64,
    /// Older frames that made room for them.
    pub overwritten_frames: u64,
    /// Frames that the filter left out.
    pub filtered_frames: u64,
    /// Frames of which the file has only the beginning.
    pub cut_frames: u64,
    /// Frames that the kernel had no room for: whether the filter would have kept them is not known.
    pub lost_frames: u64,
    /// Length of the file (bytes).
    pub total_bytes: usize,
    /// From when on frames were kept (ns).
    pub begin_ns: u64,
    /// Until when (ns).
    pub end_ns: u64,
}

/// Of `capture.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureRead {
    /// The capture.
    pub id: String,
    /// Where the part begins (bytes).
    #[serde(default)]
    pub offset_bytes: usize,
}

/// Result of `capture.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CapturePart {
    /// A part of the file, in base 64.
    pub packed: String,
    /// Length of the file (bytes).
    pub total_bytes: usize,
}
