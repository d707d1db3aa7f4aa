//! VLAN tags: IEEE 802.1Q, and 802.1ad (`QinQ`) when two are stacked. A tag is read as the four bytes that follow an
//! `EtherType` 0x8100 or 0x88a8: the tag control information and the next `EtherType`.

use crate::error::WireError;
use crate::ethernet::EtherType;
use crate::length::{room, whole};

const HEADER: &str = "VLAN tag";

/// Four bytes read as tag control information and `EtherType`.
#[derive(Debug, Clone, Copy)]
pub struct VlanView<'a>(&'a [u8]);

impl<'a> VlanView<'a> {
    /// Take `bytes`, which follow the tag's `EtherType`, as a tag.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        whole(HEADER, VlanRepr::BYTES, bytes).map(Self)
    }

    /// The priority code point, 0 to 7.
    pub const fn priority(&self) -> u8 {
        self.0[0] >> 5
    }

    /// The drop eligible indicator.
    pub const fn drop_eligible(&self) -> bool {
        self.0[0] & 0x10 != 0
    }

    /// The VLAN id; 0 means priority only, 0xfff is reserved.
    pub const fn id(&self) -> u16 {
        u16::from_be_bytes([self.0[0] & 0x0f, self.0[1]])
    }

    /// What follows the tag.
    #[inline]
    pub const fn ether_type(&self) -> EtherType {
        EtherType(u16::from_be_bytes([self.0[2], self.0[3]]))
    }

    /// The bytes after the tag.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[VlanRepr::BYTES..]
    }
}

/// What a tag says, apart from what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VlanTag {
    /// The VLAN id, 0 to 4094.
    pub id: u16,
    /// The priority code point, 0 to 7.
    pub priority: u8,
    /// Whether the frame may be dropped first.
    pub drop_eligible: bool,
}

impl VlanTag {
    /// Whether id and priority are in IEEE 802.1Q's range.
    pub const fn is_valid(&self) -> bool {
        self.id < 0xfff && self.priority < 8
    }
}

/// A meaningful tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanRepr {
    /// The tag itself.
    pub tag: VlanTag,
    /// What follows it.
    pub ether_type: EtherType,
}

impl VlanRepr {
    /// The length of a tag (bytes).
    pub const BYTES: usize = 4;

    /// The meaning of `view`; the reserved id 0xfff is refused.
    pub fn parse(view: &VlanView<'_>) -> Result<Self, WireError> {
        let tag = VlanTag { id: view.id(), priority: view.priority(), drop_eligible: view.drop_eligible() };
        if !tag.is_valid() {
            return Err(WireError::Field { header: HEADER, field: "VID", seen: u32::from(tag.id) });
        }
        Ok(Self { tag, ether_type: view.ether_type() })
    }

    /// Write the tag (control information and next `EtherType`) to the start of `buffer`; returns its length (bytes).
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
