"""Determine how the ends of a link are joined: the kernel, the link type, and the parent's interfaces of guests' NICs.

Two namespaces get a veth pair; a guest's tap is itself the port at the other end; more ends, or two guests, get a
bridge in a dedicated namespace; a machine's own port and those of its children get a bridge in that machine. Pure.
"""

from enum import StrEnum
from hashlib import blake2b

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab, answered_once
from iolab.experiment.model.machines import Netns, Vm
from iolab.experiment.model.quantities import PortRef
from iolab.frozen import frozen
from iolab.lab.kernels import has_kernel, kernel_of, on_kernels, parent_kernel
from iolab.locale import Phrase

NAME_LIMIT = 15
"""Maximum length of an interface name: IFNAMSIZ minus the final NUL (linux/if.h)."""


class Join(StrEnum):
    """The type of the connection between the ends of a link."""

    PAIR = "pair"
    """A veth pair between two ports."""
    WIRE = "wire"
    """Two taps, with an agent thread that carries frames between them."""
    TAP = "tap"
    """The tap of the only guest, which is also the other port."""
    MACVTAP = "macvtap"
    """A veth pair from the other port to a dedicated namespace, with the guest's macvtap on it."""
    BRIDGE = "bridge"
    """A bridge in a dedicated namespace."""
    CHILDREN = "children"
    """The bridge of the machine that has one of the ends; the machine's children have the other ends."""
    ON_PORT = "on-port"
    """The port of the machine that has one of the ends; the other ends are macvtaps of its guests on this port."""
    SHARED = "shared"
    """Macvlans or ipvlans on one interface: the parent's port, or an interface in a dedicated namespace."""
    FUNCTIONS = "functions"
    """The NIC of the machine that has one of the ends; the other ends are virtual functions of this NIC."""
    CABLE = "cable"
    """An existing cable."""
    TUNNEL = "tunnel"
    """A tunnel over other links: each end is on its machine's kernel."""
    BOND = "bond"
    """Several links that are bonded."""


@frozen
class Side:
    """The parent's interface of an end: a bridge member, or the device below a macvtap."""

    kernel: str
    """The kernel with the interface."""
    netns: str | None
    """Network namespace on that kernel; None: the kernel's initial namespace."""
    interface: str
    """The interface: a bridge member, or the lower device of a macvtap between two ports."""
    lower: str | None = None
    """The lower device of a macvtap, if the interface itself is a bridge member and cannot be the lower device."""
    macvtap: str | None = None
    """The macvtap; None: the guest has a tap, or the end does not belong to a guest."""
    own: bool = True
    """False: the interface is a port of the parent that a different link creates and configures."""


@answered_once
def others(lab: Lab, link: str, machine: str) -> tuple[str, ...]:
    """Return the machines at the other ends of a link."""
    ends = (end.machine for end in lab.links[link].ends)
    return tuple(name for name in ends if name != machine)


@answered_once
def standing_on(lab: Lab, machine: str) -> str:
    """Return the kernel that has the outer ends of a machine's interfaces: for a guest, its parent's kernel."""
    return parent_kernel(lab, machine) if lab.machines[machine].kind == "vm" else kernel_of(lab, machine)


@answered_once
def is_parent(lab: Lab, link: str, machine: str) -> bool:
    """Whether all other ends of a link belong to children of a machine."""
    there = False
    for end in lab.links[link].ends:
        if (name := end.machine) != machine:
            if name not in lab.machines or lab.machines[name].on != machine:
                return False  # early exit: a link may have hundreds of ends
            there = True
    return there


@answered_once
def is_card(lab: Lab, ref: PortRef) -> bool:
    """Whether a port is a NIC of a guest that the parent creates with the guest.

    Ports towards the guest's own children, and ports that other links carry, are not NICs.
    """
    machine = ref.machine
    if lab.machines[machine].kind != "vm":
        return False
    owner = owner_of(lab, ref)
    return not lab.links[owner].over and not _leads_down(lab, owner, machine)


@answered_once
def owner_of(lab: Lab, ref: PortRef) -> str:
    """Return the link that creates a port; a second link with this port joins the machine's children to it."""
    links = [name for name, link in lab.links.items() if ref in link.ends]
    machine = ref.machine
    return next((name for name in links if not is_parent(lab, name, machine)), links[0])


@answered_once
def uplinks(lab: Lab, link: str) -> tuple[PortRef, ...]:
    """Return the ends of a link that a different link creates: the parent's ports to which this link joins children."""
    ends = (end for end in lab.links[link].ends if is_parent(lab, link, end.machine))
    return tuple(end for end in ends if owner_of(lab, end) != link)


@answered_once
def own_ends(lab: Lab, link: str) -> tuple[PortRef, ...]:
    """Return the ends that a link creates."""
    elsewhere = uplinks(lab, link)
    return tuple(end for end in lab.links[link].ends if end not in elsewhere)


@answered_once
def home_of(lab: Lab, link: str) -> str:
    """Return the kernel on which a link is created.

    Raises:
        InputError: the kernels of its ends cannot be joined.
    """
    if is_on_port(lab, link):
        return kernel_of(lab, way_ends(lab, link)[0].machine)
    homes = {end: plugged_into(lab, end, link) for end in lab.links[link].ends}
    if len(set(homes.values())) > 1:
        seen = on_kernels(homes.items())
        allowed = Phrase("lab.machines-that-can-be-joined")
        raise InputError([Problem(f"lab.links.{link}.ends", Phrase("lab.joining-ports"), seen, allowed)])
    return next(iter(homes.values()))


@answered_once
def plugged_into(lab: Lab, ref: PortRef, link: str) -> str:
    """Return the kernel on which an end is joined to a link."""
    machine = ref.machine
    if has_kernel(lab.machines[machine]) and _leads_down(lab, link, machine):
        return machine
    return standing_on(lab, machine)


@answered_once
def join_of(lab: Lab, link: str) -> Join:
    """Return the type of connection between the ends of a link."""
    if lab.links[link].cable:
        return Join.CABLE
    if lab.links[link].over:
        return Join.BOND if lab.links[link].bond is not None else Join.TUNNEL
    if is_shared(lab, link):
        return Join.SHARED
    if uplinks(lab, link):
        if has_functions(lab, link):
            return Join.FUNCTIONS
        return Join.ON_PORT if macvtaps_on(lab, uplinks(lab, link)[0]) else Join.CHILDREN
    ends = lab.links[link].ends
    cards = [end for end in ends if is_card(lab, end)]
    if len(ends) > 2 or len(cards) > 1 or joins_bridges(lab, link) or lab.links[link].join == "bridge":
        return Join.BRIDGE
    if not cards:
        return Join.WIRE if is_ours(lab, link) else Join.PAIR
    guest = guest_at(lab, cards[0])
    if guest.engine == "xen":
        return Join.BRIDGE  # the parent's interface is created with the domain, so it cannot be a port
    return Join.MACVTAP if is_macvtap(guest) else Join.TAP


@answered_once
def is_shared(lab: Lab, link: str) -> bool:
    """Whether the ends of a link are macvlans or ipvlans on one interface."""
    return lab.links[link].join in ("macvlan", "ipvlan")


@answered_once
def is_ours(lab: Lab, link: str) -> bool:
    """Whether iolab itself carries the frames of a link."""
    wire = lab.links[link].wire
    return is_paced(lab, link) or (wire is not None and wire.emulator != "netem")


def is_paced(lab: Lab, link: str) -> bool:
    """Whether iolab's pacer shapes a link, as a part of an emulated link."""
    shape = lab.links[link].shape
    return shape is not None and shape.qdisc == "pacer"


def is_on_port(lab: Lab, link: str) -> bool:
    """Whether iolab carries the frames of a cable, on the port of the host at one of its ends."""
    return lab.links[link].cable and is_ours(lab, link)


@answered_once
def way_ends(lab: Lab, link: str) -> tuple[PortRef, PortRef]:
    """Return the ends of an emulated link that send the frames of its first and its second direction.

    On a cable, the first end is the port that carries the frames: the shaped port, or else the first end.
    """
    ends, shape = lab.links[link].ends, lab.links[link].shape
    if not is_on_port(lab, link):
        return ends[0], ends[1]
    first = shape.at if shape is not None and is_paced(lab, link) else ends[0]
    return first, next(end for end in ends if end != first)


def joins_bridges(lab: Lab, link: str) -> bool:
    """Whether a link's emulated link joins two bridges, one per end; at least one end is a guest's tap."""
    ends = lab.links[link].ends
    cards = [guest_at(lab, end) for end in ends if is_card(lab, end)]
    plugged = bool(cards) and all(card.engine == "qemu" and not is_macvtap(card) for card in cards)
    return is_ours(lab, link) and len(ends) == 2 and plugged and not uplinks(lab, link)


def guest_at(lab: Lab, ref: PortRef) -> Vm:
    """Return the virtual machine whose NIC a port is."""
    machine = lab.machines[ref.machine]
    assert isinstance(machine, Vm)
    return machine


def is_function(lab: Lab, machine: str) -> bool:
    """Whether a machine is joined to its parent's NIC through a virtual function of this NIC."""
    found = lab.machines[machine]
    if isinstance(found, Netns):
        return found.ports == "sr-iov"
    return isinstance(found, Vm) and found.engine == "qemu" and found.nic == "sr-iov"


@answered_once
def has_functions(lab: Lab, link: str) -> bool:
    """Whether a link joins a parent's NIC and its virtual functions."""
    parents = {end.machine for end in uplinks(lab, link)}
    ends = {end.machine for end in lab.links[link].ends}
    return bool(parents) and any(is_function(lab, name) for name in ends - parents)


@answered_once
def macvtaps_on(lab: Lab, uplink: PortRef) -> tuple[PortRef, ...]:
    """Return the guests' NICs that are macvtaps on a port of their parent.

    The result is empty if the port is bridged, or if a different kind of NIC is joined to it, because a bridged port
    cannot have macvtaps.
    """
    links = [name for name in lab.links if uplink in uplinks(lab, name)]
    ends = tuple(end for name in links for end in own_ends(lab, name))
    bridged = lab.machines[uplink.machine].forward == "bridge"
    alike = all(is_card(lab, end) and is_macvtap(guest_at(lab, end)) for end in ends)
    return ends if alike and not bridged else ()


def functions_of(lab: Lab, uplink: PortRef) -> tuple[PortRef, ...]:
    """Return the ends that are virtual functions of the NIC of a port, in the order of their numbers."""
    links = [
        name for name, link in lab.links.items() if uplink in uplinks(lab, name) and has_functions(lab, name)
    ]
    return tuple(end for name in links for end in own_ends(lab, name))


def is_macvtap(guest: Vm) -> bool:
    """Whether a guest's NICs are macvtaps."""
    return guest.nic in ("macvtap", "macvtap+vhost")


def mac_of(lab: Lab, ref: PortRef) -> str | None:
    """Return the MAC address of a port or of a machine's bridge; None: the kernel assigns it.

    The address is the same in every run and known to other kernels without ARP; a recreated port has the address that
    other machines keep in their neighbour tables. The first byte of the address marks it as locally administered (IEEE
    802, 8.4).
    """
    if any(ref in link.ends and link.cable for link in lab.links.values()):
        return None
    return "02:" + blake2b(ref.encode(), digest_size=5).digest().hex(":")


def short_name(ref: str, role: str = "") -> str:
    """Return an interface name for machine.port: unchanged if it is short enough, otherwise shortened with a digest."""
    name = f"{role}{ref}"
    if len(name) <= NAME_LIMIT:
        return name
    digest = blake2b(ref.encode(), digest_size=3).hexdigest()
    return f"{name[: NAME_LIMIT - 7]}-{digest}"


@answered_once
def _leads_down(lab: Lab, link: str, machine: str) -> bool:
    """Whether another end of a link is on a machine's own kernel."""
    return any(standing_on(lab, name) == machine for name in others(lab, link, machine))
