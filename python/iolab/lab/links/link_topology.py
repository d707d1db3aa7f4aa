"""How the ends of a link meet: on which kernel, by what, and what stands at the parent's side of a guest's card.

Two namespaces get a veth pair; a guest's tap *is* the port at the other end; more ends, or two guests, get a bridge in
a namespace of the link's own; a machine's own port and its children's get a bridge in that machine. Pure.
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
"""Longest interface name: IFNAMSIZ less the final NUL (linux/if.h)."""


class Join(StrEnum):
    """What joins the ends of a link."""

    PAIR = "pair"
    """A veth pair between two ports."""
    WIRE = "wire"
    """Two taps, and a thread of the agent that carries frames between them."""
    TAP = "tap"
    """The tap of the one guest, which is the other port."""
    MACVTAP = "macvtap"
    """A veth pair from the other port to a namespace of the link's own, with the guest's macvtap on it."""
    BRIDGE = "bridge"
    """A bridge in a namespace of the link's own."""
    CHILDREN = "children"
    """The bridge of the machine whose port is one of the ends, and whose children are the others."""
    ON_PORT = "on-port"
    """The port of the machine that is one of the ends: the others are macvtaps on it, of its guests."""
    SHARED = "shared"
    """Macvlans or ipvlans on one interface: the parent's port, or one in a namespace of the link's own."""
    FUNCTIONS = "functions"
    """The card of the machine whose port is one of the ends: the others are virtual functions of it."""
    CABLE = "cable"
    """Nothing: it is there."""
    TUNNEL = "tunnel"
    """What other links carry: each end is on its machine's own kernel."""
    BOND = "bond"
    """Several links whose ports are one."""


@frozen
class Side:
    """The parent's side of an end that is plugged in from elsewhere: a bridge's member, or what carries a macvtap."""

    kernel: str
    """The kernel it is on."""
    netns: str | None
    """Network namespace of that kernel; None: the kernel's own."""
    interface: str
    """The interface: a bridge's member, or the lower device of a macvtap between two ports."""
    lower: str | None = None
    """The lower device of a macvtap, where the interface itself cannot be it: it is a bridge's member."""
    macvtap: str | None = None
    """The macvtap; None: the guest has a tap, or the end is no guest's."""
    own: bool = True
    """False: the interface is a port of the parent, which another link makes and sets."""


@answered_once
def others(lab: Lab, link: str, machine: str) -> tuple[str, ...]:
    """Return the machines at the other ends of a link."""
    ends = (end.machine for end in lab.links[link].ends)
    return tuple(name for name in ends if name != machine)


@answered_once
def standing_on(lab: Lab, machine: str) -> str:
    """Return the kernel on which a machine's interfaces are plugged in from outside: a guest's on its parent's."""
    return parent_kernel(lab, machine) if lab.machines[machine].kind == "vm" else kernel_of(lab, machine)


@answered_once
def is_parent(lab: Lab, link: str, machine: str) -> bool:
    """Tell whether all other ends of a link are children of a machine."""
    there = False
    for end in lab.links[link].ends:
        if (name := end.machine) != machine:
            if name not in lab.machines or lab.machines[name].on != machine:
                return False  # at once: a link may have hundreds of ends
            there = True
    return there


@answered_once
def is_card(lab: Lab, ref: PortRef) -> bool:
    """Tell whether a port is a card of a guest, made with it by its parent.

    Not so a port that is for its children, or that others of its ports carry.
    """
    machine = ref.machine
    if lab.machines[machine].kind != "vm":
        return False
    owner = owner_of(lab, ref)
    return not lab.links[owner].over and not _leads_down(lab, owner, machine)


@answered_once
def owner_of(lab: Lab, ref: PortRef) -> str:
    """Return the link that makes a port; another one that it is an end of joins its machine's children to it."""
    links = [name for name, link in lab.links.items() if ref in link.ends]
    machine = ref.machine
    return next((name for name in links if not is_parent(lab, name, machine)), links[0])


@answered_once
def uplinks(lab: Lab, link: str) -> tuple[PortRef, ...]:
    """Return the ends of a link that another link makes: ports of the parent, to which this one joins its children."""
    ends = (end for end in lab.links[link].ends if is_parent(lab, link, end.machine))
    return tuple(end for end in ends if owner_of(lab, end) != link)


@answered_once
def own_ends(lab: Lab, link: str) -> tuple[PortRef, ...]:
    """Return the ends that a link makes."""
    elsewhere = uplinks(lab, link)
    return tuple(end for end in lab.links[link].ends if end not in elsewhere)


@answered_once
def home_of(lab: Lab, link: str) -> str:
    """Return the kernel on which a link is made.

    Raises:
        InputError: its ends are on kernels that do not meet.
    """
    homes = {end: plugged_into(lab, end, link) for end in lab.links[link].ends}
    if len(set(homes.values())) > 1:
        seen = on_kernels(homes.items())
        allowed = Phrase("lab.machines-that-can-be-joined")
        raise InputError([Problem(f"lab.links.{link}.ends", Phrase("lab.joining-ports"), seen, allowed)])
    return next(iter(homes.values()))


@answered_once
def plugged_into(lab: Lab, ref: PortRef, link: str) -> str:
    """Return the kernel on which an end is plugged into a link."""
    machine = ref.machine
    if has_kernel(lab.machines[machine]) and _leads_down(lab, link, machine):
        return machine
    return standing_on(lab, machine)


@answered_once
def join_of(lab: Lab, link: str) -> Join:
    """Return what joins the ends of a link."""
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
        return Join.BRIDGE  # the parent's side comes with the domain, and goes with it: no port can be it
    return Join.MACVTAP if is_macvtap(guest) else Join.TAP


@answered_once
def is_shared(lab: Lab, link: str) -> bool:
    """Tell whether the ends of a link are macvlans or ipvlans on one interface."""
    return lab.links[link].join in ("macvlan", "ipvlan")


@answered_once
def is_ours(lab: Lab, link: str) -> bool:
    """Tell whether iolab itself carries the frames of a link."""
    wire = lab.links[link].wire
    return is_paced(lab, link) or (wire is not None and wire.emulator != "netem")


def is_paced(lab: Lab, link: str) -> bool:
    """Tell whether iolab's own pacer shapes a link: it is a part of a wire."""
    shape = lab.links[link].shape
    return shape is not None and shape.qdisc == "pacer"


def joins_bridges(lab: Lab, link: str) -> bool:
    """Tell whether a link's wire joins two bridges: one end is plugged into each, a guest's tap into one at least."""
    ends = lab.links[link].ends
    cards = [guest_at(lab, end) for end in ends if is_card(lab, end)]
    plugged = bool(cards) and all(card.engine == "qemu" and not is_macvtap(card) for card in cards)
    return is_ours(lab, link) and len(ends) == 2 and plugged and not uplinks(lab, link)


def guest_at(lab: Lab, ref: PortRef) -> Vm:
    """Return the virtual machine whose card a port is."""
    machine = lab.machines[ref.machine]
    assert isinstance(machine, Vm)
    return machine


def is_function(lab: Lab, machine: str) -> bool:
    """Tell whether what joins a machine to its parent's card is a virtual function of it."""
    found = lab.machines[machine]
    if isinstance(found, Netns):
        return found.ports == "sr-iov"
    return isinstance(found, Vm) and found.engine == "qemu" and found.nic == "sr-iov"


@answered_once
def has_functions(lab: Lab, link: str) -> bool:
    """Tell whether a link joins a parent's card and virtual functions of it."""
    parents = {end.machine for end in uplinks(lab, link)}
    ends = {end.machine for end in lab.links[link].ends}
    return bool(parents) and any(is_function(lab, name) for name in ends - parents)


@answered_once
def macvtaps_on(lab: Lab, uplink: PortRef) -> tuple[PortRef, ...]:
    """Return the cards of guests that are macvtaps on a port of their parent, as all that is joined to it must be.

    A port that is on a bridge can carry none: where a guest has another card, or the parent bridges, all are on one.
    """
    links = [name for name in lab.links if uplink in uplinks(lab, name)]
    ends = tuple(end for name in links for end in own_ends(lab, name))
    bridged = lab.machines[uplink.machine].forward == "bridge"
    alike = all(is_card(lab, end) and is_macvtap(guest_at(lab, end)) for end in ends)
    return ends if alike and not bridged else ()


def functions_of(lab: Lab, uplink: PortRef) -> tuple[PortRef, ...]:
    """Return the ends that are virtual functions of the card that a port is, in the order of their numbers."""
    links = [
        name for name, link in lab.links.items() if uplink in uplinks(lab, name) and has_functions(lab, name)
    ]
    return tuple(end for name in links for end in own_ends(lab, name))


def is_macvtap(guest: Vm) -> bool:
    """Tell whether a guest's cards are macvtaps."""
    return guest.nic in ("macvtap", "macvtap+vhost")


def mac_of(lab: Lab, ref: PortRef) -> str | None:
    """Return the Ethernet address of a port or of a machine's bridge; None: as its kernel makes it.

    It is the same in every run, and known to other kernels without asking; a port that is made again has the address
    that others keep for it (ARP). Its first byte says that it is administered locally (IEEE 802, 8.4).
    """
    if any(ref in link.ends and link.cable for link in lab.links.values()):
        return None
    return "02:" + blake2b(ref.encode(), digest_size=5).digest().hex(":")


def short_name(ref: str, role: str = "") -> str:
    """Return an interface name made of machine.port: as it is where it is short enough, else ending in a digest."""
    name = f"{role}{ref}"
    if len(name) <= NAME_LIMIT:
        return name
    digest = blake2b(ref.encode(), digest_size=3).hexdigest()
    return f"{name[: NAME_LIMIT - 7]}-{digest}"


@answered_once
def _leads_down(lab: Lab, link: str, machine: str) -> bool:
    """Tell whether another end of a link stands on a machine's own kernel."""
    return any(standing_on(lab, name) == machine for name in others(lab, link, machine))
