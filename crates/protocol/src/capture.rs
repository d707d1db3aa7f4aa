//! The parameters and results of `capture.*`: the newest frames of an interface, as a pcapng file.

use serde::{Deserialize, Serialize};

/// The capture filter: a frame is kept if it matches all given conditions; without conditions, all frames are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureFilter {
    /// IP protocol number (IANA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Addresses, one of which must be the frame's source or destination; empty: any address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<std::net::IpAddr>,
    /// Source or destination port of TCP or UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Parameters of `capture.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureStart {
    /// The controller's name for the capture.
    pub id: String,
    /// The namespace of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The interface.
    pub interface: String,
    /// Snapshot length: number of bytes kept of each frame.
    pub snap_bytes: u32,
    /// Memory for frames; the oldest frames are overwritten (bytes).
    pub ring_bytes: usize,
    /// The capture filter.
    #[serde(default)]
    pub filter: CaptureFilter,
}

/// Result of `capture.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureStarted {
    /// Start of the capture (ns).
    pub begin_ns: u64,
}

/// Parameters of `capture.stop` and `capture.close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureName {
    /// The capture.
    pub id: String,
}

/// Result of `capture.stop`. A GSO or GRO frame counts as one frame, as in every capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Captured {
    /// Number of frames in the file.
    pub kept_frames: u64,
    /// Number of older frames that were overwritten.
    pub overwritten_frames: u64,
    /// Number of frames that the filter rejected.
    pub filtered_frames: u64,
    /// Number of frames that the snapshot length truncated.
    pub cut_frames: u64,
    /// Number of frames that the kernel dropped for lack of buffer space, whether or not they matched the filter.
    pub lost_frames: u64,
    /// File length (bytes).
    pub total_bytes: usize,
    /// Start of the capture (ns).
    pub begin_ns: u64,
    /// End of the capture (ns).
    pub end_ns: u64,
}

/// Parameters of `capture.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureRead {
    /// The capture.
    pub id: String,
    /// Offset in the file (bytes).
    #[serde(default)]
    pub offset_bytes: usize,
}

/// Result of `capture.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CapturePart {
    /// A part of the file (Base64).
    pub packed: String,
    /// File length (bytes).
    pub total_bytes: usize,
}
