//! VLAN tags: IEEE 802.1Q, and 802.1ad (`QinQ`) for two stacked tags. A tag is parsed as the four bytes after the
//! `EtherType` 0x8100 or 0x88a8: the tag control information and the next `EtherType`.

use crate::error::WireError;
use crate::ethernet::EtherType;
use crate::length::{room, whole};

const HEADER: &str = "VLAN tag";

/// A read-only view of four bytes as tag control information and `EtherType`.
#[derive(Debug, Clone, Copy)]
pub struct VlanView<'a>(&'a [u8]);

impl<'a> VlanView<'a> {
    /// Create a view of `bytes`, which start after the tag's `EtherType` (TPID).
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        whole(HEADER, VlanRepr::BYTES, bytes).map(Self)
    }

    /// Return the priority code point (PCP), 0 to 7.
    pub const fn priority(&self) -> u8 {
        self.0[0] >> 5
    }

    /// Return the drop eligible indicator (DEI).
    pub const fn drop_eligible(&self) -> bool {
        self.0[0] & 0x10 != 0
    }

    /// Return the VLAN id; 0 means priority only, 0xfff is reserved.
    pub const fn id(&self) -> u16 {
        u16::from_be_bytes([self.0[0] & 0x0f, self.0[1]])
    }

    /// Return the `EtherType` after the tag.
    #[inline]
    pub const fn ether_type(&self) -> EtherType {
        EtherType(u16::from_be_bytes([self.0[2], self.0[3]]))
    }

    /// Return the bytes after the tag.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[VlanRepr::BYTES..]
    }
}

/// The tag control information of a VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VlanTag {
    /// VLAN id, 0 to 4094.
    pub id: u16,
    /// Priority code point (PCP), 0 to 7.
    pub priority: u8,
    /// Whether the drop eligible indicator (DEI) is set.
    pub drop_eligible: bool,
}

impl VlanTag {
    /// Whether id and priority are in the range of IEEE 802.1Q.
    pub const fn is_valid(&self) -> bool {
        self.id < 0xfff && self.priority < 8
    }
}

/// A validated VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanRepr {
    /// Tag control information.
    pub tag: VlanTag,
    /// `EtherType` after the tag.
    pub ether_type: EtherType,
}

impl VlanRepr {
    /// Length of a tag (bytes).
    pub const BYTES: usize = 4;

    /// Parse the tag in `view`; refuse the reserved id 0xfff.
    pub fn parse(view: &VlanView<'_>) -> Result<Self, WireError> {
        let tag = VlanTag { id: view.id(), priority: view.priority(), drop_eligible: view.drop_eligible() };
        if !tag.is_valid() {
            return Err(WireError::Field { header: HEADER, field: "VID", seen: u32::from(tag.id) });
        }
        Ok(Self { tag, ether_type: view.ether_type() })
    }

    /// Write the tag (control information and next `EtherType`) to the start of `buffer` and return its length
    /// (bytes).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        if !self.tag.is_valid() {
            return Err(WireError::Field { header: HEADER, field: "VID", seen: u32::from(self.tag.id) });
        }
        let header = room::<{ Self::BYTES }>(HEADER, buffer)?;
        let control =
            u16::from(self.tag.priority) << 13 | u16::from(self.tag.drop_eligible) << 12 | self.tag.id;
        header[..2].copy_from_slice(&control.to_be_bytes());
        header[2..].copy_from_slice(&self.ether_type.0.to_be_bytes());
        Ok(Self::BYTES)
    }
}
