//! Attachment of XDP programs to interfaces, and detachment; a forced attachment restores the previous program at the
//! end.

use std::io;

use iolab_sys::bpf::{Link, Place, Program};

use crate::error::PortError;
use crate::interface::{self, Interface};

const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The attach mode of an XDP program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attach {
    /// Native mode (in the driver); generic mode if the driver refuses, with the reason reported.
    NativeFirst,
    /// Native mode (in the driver) only.
    Native,
    /// Generic mode (in the stack) only: later and slower, but every interface supports it.
    Generic,
}

/// Attach a program to an interface in generic mode, for the lifetime of the returned link.
pub(super) fn link_generic(program: &Program, interface: u32) -> io::Result<Link> {
    link(program, interface, XDP_FLAGS_SKB_MODE)
}

/// A program attached to an interface until drop; the kernel detaches it when the process ends.
#[derive(Debug)]
pub(super) struct Attachment {
    // The link must be dropped before the replaced program is attached again.
    link: Option<Link>,
    pub(super) mode: &'static str,
    pub(super) fallback: Option<String>,
    replaced: Option<Replaced>,
}

#[derive(Debug)]
struct Replaced {
    program: Program,
    index: u32,
    flags: u32,
}

impl Attachment {
    /// Attach the program; refuse an interface with an XDP program unless `force` is set.
    pub(super) fn new(
        program: &Program,
        interface: &Interface,
        attach: Attach,
        force: bool,
    ) -> Result<Self, PortError> {
        let mut this = Self { link: None, mode: "native", fallback: None, replaced: None };
        if let Some(present) = interface.program {
            let refusal = || PortError::ProgramPresent {
                name: interface.name.clone(),
                program_id: present.program_id,
                mode: present.mode,
            };
            if !force {
                return Err(refusal());
            }
            // Only the owner can remove a program attached through a BPF link.
            this.replaced = Some(Replaced::remove(interface.index, present).map_err(|_| refusal())?);
        }
        let doing = "attaching an XDP program";
        if attach != Attach::Generic {
            match link(program, interface.index, XDP_FLAGS_DRV_MODE) {
                Ok(link) => {
                    this.link = Some(link);
                    return Ok(this);
                }
                Err(errno) if attach == Attach::Native => return Err(PortError::of(doing, "bpf")(errno)),
                Err(errno) => this.fallback = Some(format!("native XDP refused: {errno}")),
            }
        }
        this.link =
            Some(link(program, interface.index, XDP_FLAGS_SKB_MODE).map_err(PortError::of(doing, "bpf"))?);
        this.mode = "generic";
        Ok(this)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        drop(self.link.take());
        if let Some(replaced) = self.replaced.take() {
            // A drop cannot report an error; after a failure the interface has no program, as `ip link` shows.
            let _ = interface::set_program(replaced.index, replaced.program.as_raw_fd(), replaced.flags);
        }
    }
}

impl Replaced {
    fn remove(index: u32, present: interface::AttachedProgram) -> io::Result<Self> {
        let program = Program::by_id(present.program_id)?;
        let flags = if present.mode == "native" { XDP_FLAGS_DRV_MODE } else { XDP_FLAGS_SKB_MODE };
        interface::set_program(index, -1, flags)?;
        Ok(Self { program, index, flags })
    }
}

fn link(program: &Program, interface: u32, flags: u32) -> io::Result<Link> {
    Link::new(program, interface, Place::Xdp, flags)
}

#[cfg(test)]
#[allow(dead_code, clippy::unwrap_used, clippy::cast_possible_truncation)] // only the namespaces are used here
#[path = "../../tests/lab/mod.rs"]
mod lab;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::RxPort;
    use crate::xdp::{AfXdp, Direction};
    use iolab_sys::bpf::Assembler;

    /// If `ip link` has attached a program, the interface is refused; with force, the program is replaced, and restored
    /// when the port closes.
    #[test]
    fn replaced_xdp_program_is_restored_when_the_port_closes() {
        let Some(lab) = lab::Lab::new() else { return };
        lab::inside(&lab.rx, || {
            let mut pass = Assembler::default();
            pass.exit_with(super::super::XDP_PASS);
            let theirs = Program::load("theirs", &pass.finish()).unwrap();
            let index = Interface::find("east").unwrap().index;
            interface::set_program(index, theirs.as_raw_fd(), XDP_FLAGS_DRV_MODE).unwrap();
            let before = Interface::find("east").unwrap().program;
            assert_eq!(before.unwrap().mode, "native");
            let port = AfXdp::new("east", Direction::Receive);
            let seen = port.open_rx().map(drop).unwrap_err();
            assert!(matches!(seen, PortError::ProgramPresent { mode: "native", .. }), "{seen:?}");
            assert_eq!(Interface::find("east").unwrap().program, before);
            let ours = AfXdp { force: true, ..port }.open_rx().unwrap();
            assert_ne!(Interface::find("east").unwrap().program, before);
            assert_eq!(ours.path().name, "AF_XDP native copy");
            drop(ours);
            assert_eq!(Interface::find("east").unwrap().program, before);
        });
    }
}
