"""Why a measure cannot be done in a cell anywhere: choices that do not go together. Types only."""

from typing import Literal

from iolab.messages.statement import Name
from iolab.messages.unmet import PartLack


class Conflict(PartLack, kind=True):
    """A choice that does not go together with the others."""


class ParentPortAbsent(Conflict):
    """No port of a parent could give a virtual function."""

    link: Name


class BridgedToCard(Conflict):
    """Ends would be bridged to a card that has virtual functions."""

    ends: tuple[Name, ...]
    link: Name


class InstalledOnGuest(Conflict):
    """A guest on a guest has its parent's image: nothing can be installed for it alone."""

    parent: Name


class ClashAtMachine(Conflict):
    """A clash at a machine."""

    code: Literal[
        "namespace-has-no-card",  # A namespace has no card to be split
        "function-gets-own-frames",  # A virtual function gets no frame to another address
        "host-without-card",  # A host has no card in the lab
        "guest-without-card",  # No card carries a guest's frames
    ]
    machine: Name


class CardWithoutFunctions(Conflict):
    """A guest's card has no virtual functions."""

    nic: Name
    machine: Name


class FunctionsTooMany(Conflict):
    """A card has fewer virtual functions."""

    port: Name
    most: int


class PlainClash(Conflict):
    """A clash that its code says whole."""

    code: Literal[
        "xen-bus-fixed",  # A Xen domain has a bus of its own
        "bus-without-guest",  # Only a guest has disks on a bus
        "disk-cache-without-qemu",  # Only QEMU has a cache to choose
        "throttle-without-qemu",  # QEMU slows disks down
        "kernel-initiator-in-namespace",  # A kernel's initiator is of the whole kernel
        "hypervisor-without-address",  # A hypervisor logs in from the address of its guest's parent, and is QEMU
        "export-without-way",  # An exported volume is reached by its protocol alone
        "export-without-machine",  # An export needs a machine with an address
        "params-without-export",  # Nobody logs in to a volume that is not exported
        "xen-threads-fixed",  # Threads of Dom0's kernel carry a domain's frames
        "image-qemu-old",  # The QEMU in guest images lacks the card
        "leads-elsewhere",  # A link does not lead to a machine's children
        "xen-ring-fixed",  # Rings of Xen are one page
        "join-without-wire",  # An emulated path joins two taps, or two bridges, by itself
        "pair-of-two",  # A veth pair has two ends, which are namespaces or hosts
        "vlan-on-ipvlan",  # An ipvlan carries no VLAN
    ]


class ClashOfWay(Conflict):
    """A clash of the way to a disk."""

    code: Literal[
        "disk-way-for-others",  # A guest has a hypervisor, and others a storage daemon, that speaks for them
        "initiator-without-export",  # Kernels and hypervisors log in to exported volumes
        "no-nvme-initiator",  # NVMe/TCP is spoken by kernels alone
    ]
    via: Name


class IdePortsTooFew(Conflict):
    """There are fewer ports of SATA."""

    most: int


class ImageWithoutEngine(Conflict):
    """A parent's image does not start such guests."""

    parent: Name
    image: Name
    engine: Name
    wanted: Name
    """An image that does."""


class ParentMemoryShort(Conflict):
    """A parent that is a guest has less memory."""

    parent: Name
    memory_bytes: int


class ParentCpuAbsent(Conflict):
    """A parent that is a guest has fewer CPUs."""

    parent: Name
    cpu: int
    cpus: int


class SwitchFinishesNothing(Conflict):
    """A switch in user space passes no unfinished frames on."""

    offloads: tuple[Name, ...]
    """As ethtool -K names them."""


class MtuLimited(Conflict):
    """A switch in user space, or the link below a tunnel, carries no larger packets."""

    code: Literal["switch-mtu-small", "tunnel-mtu-large"]
    most_bytes: int


class QueuesTooFew(Conflict):
    """A card has fewer queue pairs than asked for."""

    port: Name
    machine: Name
    pairs: int
    asked: int


class CableEndNoHost(Conflict):
    """A cable ends at a machine that is no host."""

    machine: Name
    kind: Name


class MacvtapGetsOwnFrames(Conflict):
    """One of several macvtaps gets only frames to its own address."""

    port: Name
    lower: Name
    """The port that it shares."""


class ClashAtPorts(Conflict):
    """A clash at several ports."""

    code: Literal[
        "macvtap-finishes-nothing",  # A macvtap sends nothing for the stack
        "xen-checksum-fixed",  # A domain's driver always leaves checksums to others
        "shared-by-namespaces",  # Only namespaces have ports that share an interface
    ]
    ports: tuple[Name, ...]


class OneQueue(Conflict):
    """A card has one queue."""

    card: Name


class DriverRingFixed(Conflict):
    """A card's driver has one ring size."""

    nic: Name


class RingSizeAbsent(Conflict):
    """A card has other ring sizes."""

    nic: Name
    side: Name
    """rx or tx."""
    size: int
    present: tuple[int, ...]


class ClashAtPort(Conflict):
    """A clash at a port."""

    code: Literal[
        "cards-on-port",  # Cards of guests that are on their parent's port itself are on no bridge
        "join-on-bridged-port",  # A port that is on a bridge can be shared by nothing
        "l3-on-port",  # Nobody outside finds an ipvlan that answers no ARP
    ]
    port: Name


class ForwardConflict(Conflict):
    """A port that shares an interface gets only its own frames, or a tunnel has no Ethernet to bridge."""

    code: Literal["join-gives-own-frames", "tunnel-of-packets"]
    port: Name
    forward: Name


class TunnelInOwnBridge(Conflict):
    """A tunnel and what carries it would be on one bridge."""

    port: Name
    below: Name


class TunnelTwice(Conflict):
    """Two tunnels that nothing tells apart."""

    other: Name


class BondMtusDiffer(Conflict):
    """The parts of a bond have one MTU."""

    links: tuple[Name, ...]


class Ipv6MtuSmall(Conflict):
    """IPv6 needs packets of a least size."""

    least_bytes: int
