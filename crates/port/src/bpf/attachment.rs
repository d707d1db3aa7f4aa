//! Puts XDP programs on interfaces and takes them off again; what hung there before comes back when asked for.

use std::io;

use iolab_sys::bpf::{Link, Place, Program};

use crate::error::PortError;
use crate::interface::{self, Interface};

const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// How an XDP program is put on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attach {
    /// in the driver, or else in the stack with the reason stated
    NativeFirst,
    /// in the driver only
    Native,
    /// in the stack only: later and slower, but every interface has it
    Generic,
}

/// Hangs a program on an interface in the stack, for as long as the link lives.
pub(super) fn link_generic(program: &Program, interface: u32) -> io::Result<Link> {
    link(program, interface, XDP_FLAGS_SKB_MODE)
}

/// A program on an interface, until dropped; gone with the process in any case.
#[derive(Debug)]
pub(super) struct Attachment {
    // The link goes before the program that it replaced comes back.
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
    /// Attaches; an interface that carries a program already is refused unless `force`.
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
            // A program that hangs on somebody's link can be removed by its owner only.
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
            // Nobody is left to tell when this fails; the interface is then without a program, as `ip link` shows.
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

    /// A program put there by `ip link` is refused, replaced only by force, and back when the port closes.
    #[test]
    fn a_replaced_program_comes_back() {
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
