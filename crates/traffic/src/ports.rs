//! Ports that stay open between trials, with the path of each.

use std::sync::{Mutex, MutexGuard, PoisonError};

use iolab_frame::{FCS_BYTES, LARGEST_FRAME_BYTES, SMALLEST_FRAME_BYTES};
use iolab_port::{AfPacket, AfXdp, BpfLive, Direction, Interface, PortError, RxPort, TxPort};
use iolab_protocol::traffic::{Halves, PathChoice, PathUsed, PortOpened, PortParams};
use iolab_protocol::ErrorObject;

use crate::faults::port_refused;

/// Default maximum frame size: 1518 B with FCS and a VLAN tag (bytes).
const USUAL_BYTES: usize = 1522;

type Tx = Box<dyn TxPort>;
type Rx = Box<dyn RxPort>;

/// An open port; one trial at a time uses it, with one thread per half.
pub struct OpenPort {
    /// Parameters of the request.
    pub params: PortParams,
    pub(crate) interface: Interface,
    pub(crate) frame_bytes: u16,
    send: Option<PathUsed>,
    receive: Option<PathUsed>,
    /// One sending half per thread.
    pub(crate) tx: Box<[Mutex<Option<Tx>>]>,
    pub(crate) rx: Mutex<Option<Rx>>,
}

impl OpenPort {
    /// Open a port on an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// Returns an error object for the reply; nothing is changed in this case.
    pub fn open(params: &PortParams) -> Result<Self, ErrorObject> {
        let doing = format!("opening port '{}'", params.name);
        let refused = |error: PortError| port_refused(&doing, &params.interface, &error);
        let interface = Interface::find(&params.interface).map_err(refused)?;
        let frame_bytes = frame_bytes(params, &interface)?;
        interface.check(usize::from(frame_bytes - FCS_BYTES), 1).map_err(refused)?;
        let opened = open_halves(params, usize::from(frame_bytes - FCS_BYTES)).map_err(refused)?;
        Ok(Self {
            params: params.clone(),
            interface,
            frame_bytes,
            send: opened.tx.first().map(|tx| used(tx.path(), opened.send_reasons)),
            receive: opened.rx.as_ref().map(|rx| used(rx.path(), opened.receive_reasons)),
            tx: opened.tx.into_iter().map(|tx| Mutex::new(Some(tx))).collect(),
            rx: Mutex::new(opened.rx),
        })
    }

    /// Return the reply to the open request.
    pub fn describe(&self) -> PortOpened {
        let [a, b, c, d, e, f] = self.interface.address;
        PortOpened {
            name: self.params.name.clone(),
            mac: format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"),
            mtu_bytes: u32::try_from(self.interface.mtu_bytes).unwrap_or(u32::MAX),
            frame_bytes: self.frame_bytes,
            queues: self.interface.queues,
            send_queues: self.interface.send_queues,
            send: self.send.clone(),
            receive: self.receive.clone(),
        }
    }

    /// Whether the port has an open sending half.
    pub(crate) fn sends(&self) -> bool {
        self.tx.first().is_some_and(|tx| lock(tx).is_some())
    }

    /// Return the number of sending threads.
    pub(crate) fn senders(&self) -> u32 {
        u32::try_from(self.tx.len()).unwrap_or(u32::MAX)
    }

    /// Return the CPUs of the sending threads, in thread order.
    pub(crate) fn send_cpus(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        let further = self.params.further_send_cpus.iter().copied().map(Some);
        std::iter::once(self.params.send_cpu).chain(further).take(self.tx.len())
    }

    /// Close the port; must be called in the namespace of its interface.
    pub fn close(&self) {
        self.tx.iter().for_each(|tx| drop(lock(tx).take()));
        drop(lock(&self.rx).take());
    }
}

/// Return the id of the XDP program on an interface of the calling thread's namespace, and whether it is attached in
/// native mode.
pub fn attached_program(interface: &str) -> Option<(u32, bool)> {
    let program = Interface::find(interface).ok()?.program?;
    Some((program.program_id, program.mode == "native"))
}

fn used(path: &iolab_port::Path, mut fallbacks: Vec<String>) -> PathUsed {
    fallbacks.extend(path.fallbacks.iter().cloned());
    PathUsed { name: path.name.clone(), fallbacks }
}

fn frame_bytes(params: &PortParams, interface: &Interface) -> Result<u16, ErrorObject> {
    if let Some(asked) = params.frame_bytes {
        if !(SMALLEST_FRAME_BYTES..=LARGEST_FRAME_BYTES).contains(&asked) {
            let message = format!("'frame_bytes' is from {SMALLEST_FRAME_BYTES} to {LARGEST_FRAME_BYTES}");
            return Err(ErrorObject::params(message, asked));
        }
        return Ok(asked);
    }
    let most = interface.most_bytes(1) + usize::from(FCS_BYTES);
    Ok(u16::try_from(most.min(USUAL_BYTES)).unwrap_or(SMALLEST_FRAME_BYTES))
}

/// Both halves of a port, with the reasons why faster paths were not used.
#[derive(Default)]
struct Opened {
    tx: Vec<Tx>,
    rx: Option<Rx>,
    send_reasons: Vec<String>,
    receive_reasons: Vec<String>,
}

fn open_halves(params: &PortParams, frame_bytes: usize) -> Result<Opened, PortError> {
    if params.path == PathChoice::AfPacket {
        return open_packet(params, frame_bytes, params.halves);
    }
    if params.path == PathChoice::BpfLive {
        return open_live(params, frame_bytes);
    }
    match open_xdp(params, frame_bytes, params.halves) {
        // No other path supports several senders.
        Err(error) if params.path == PathChoice::Auto && senders_of(params) == 1 && error.may_fall_back() => {
            open_what_works(params, frame_bytes, vec![format!("AF_XDP refused: {error}")])
        }
        other => other,
    }
}

fn open_what_works(
    params: &PortParams,
    frame_bytes: usize,
    reasons: Vec<String>,
) -> Result<Opened, PortError> {
    // Sending through AF_XDP needs fewer permissions than receiving, because it needs no program.
    if params.halves == Halves::Both {
        if let Ok(sending) = open_xdp(params, frame_bytes, Halves::Send) {
            let receiving = open_packet(params, frame_bytes, Halves::Receive)?;
            return Ok(Opened { rx: receiving.rx, receive_reasons: reasons, ..sending });
        }
    }
    let opened = open_packet(params, frame_bytes, params.halves)?;
    Ok(Opened { send_reasons: reasons.clone(), receive_reasons: reasons, ..opened })
}

fn open_xdp(params: &PortParams, frame_bytes: usize, halves: Halves) -> Result<Opened, PortError> {
    let usual = AfXdp::new(&params.interface, Direction::Both);
    let senders = senders_of(params);
    let port = AfXdp { frame_bytes, vlan_tags: 1, force: params.force, senders, ..usual };
    let mut opened = Opened::default();
    match halves {
        Halves::Both => {
            let (tx, rx) = port.open_all()?;
            opened.tx.extend(tx.into_iter().map(|tx| Box::new(tx) as Tx));
            opened.rx = Some(Box::new(rx));
        }
        Halves::Send => opened.tx.extend(port.open_senders()?.into_iter().map(|tx| Box::new(tx) as Tx)),
        Halves::Receive => opened.rx = Some(Box::new(port.open_rx()?)),
    }
    Ok(opened)
}

fn open_live(params: &PortParams, frame_bytes: usize) -> Result<Opened, PortError> {
    let mut opened = Opened::default();
    if params.halves != Halves::Receive {
        check_one_sender(params, "BPF live")?;
        let port = BpfLive { frame_bytes, vlan_tags: 1, ..BpfLive::new(&params.interface) };
        opened.tx.push(Box::new(port.open_tx()?));
    }
    if params.halves != Halves::Send {
        opened.rx = open_xdp(params, frame_bytes, Halves::Receive)?.rx;
    }
    Ok(opened)
}

fn senders_of(params: &PortParams) -> u32 {
    u32::try_from(1 + params.further_send_cpus.len()).unwrap_or(u32::MAX)
}

/// Refuse several senders on a path without separate queues, because the interface counters cannot be split by
/// sender.
fn check_one_sender(params: &PortParams, path: &'static str) -> Result<(), PortError> {
    match senders_of(params) {
        1 => Ok(()),
        senders => Err(PortError::OneSender { name: params.interface.clone(), path, senders }),
    }
}

fn open_packet(params: &PortParams, frame_bytes: usize, halves: Halves) -> Result<Opened, PortError> {
    let port = AfPacket { frame_bytes, vlan_tags: 1, ..AfPacket::new(&params.interface) };
    let mut opened = Opened::default();
    if halves != Halves::Receive {
        check_one_sender(params, "AF_PACKET")?;
        opened.tx.push(Box::new(port.open_tx()?));
    }
    if halves != Halves::Send {
        opened.rx = Some(Box::new(port.open_rx()?));
    }
    Ok(opened)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
