"""Conflicts between settings, which make a measure impossible in a cell on any host. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Statement, TrialWarning
from iolab.messages.unmet import PartLack


class Conflict(PartLack, kind=True):
    """A conflict between settings."""


class ParentPortAbsent(Conflict):
    """No port of the parent can provide a virtual function."""

    link: Name


class BridgedToCard(Conflict):
    """Ends of a link would be bridged to a NIC with virtual functions."""

    ends: tuple[Name, ...]
    link: Name


class InstalledOnGuest(Conflict):
    """A nested guest uses its parent's image, so packages cannot be installed only for the guest."""

    parent: Name


class ClashAtMachine(Conflict):
    """A conflict on a machine."""

    code: Literal[
        "namespace-has-no-card",  # A namespace has no NIC with virtual functions
        "function-gets-own-frames",  # A virtual function receives only frames to its own address
        "host-without-card",  # A host without a cable has no NIC in the lab
        "guest-without-card",  # No NIC of the parent carries the guest's frames
    ]
    machine: Name


class CardWithoutFunctions(Conflict):
    """A guest's NIC has no virtual functions."""

    nic: Name
    machine: Name


class FunctionsTooMany(Conflict):
    """A NIC has fewer virtual functions than requested."""

    port: Name
    most: int


class PlainClash(Conflict):
    """A conflict that needs no parameters."""

    code: Literal[
        "xen-bus-fixed",  # The disk bus of a Xen domain is fixed
        "bus-without-guest",  # Only guests have disks on a bus
        "disk-cache-without-qemu",  # Only QEMU has a cache setting
        "throttle-without-qemu",  # Only QEMU throttles disks
        "kernel-initiator-in-namespace",  # A kernel initiator works only for the whole kernel
        "hypervisor-without-address",  # A hypervisor that logs in needs QEMU, and an address of the guest's parent
        "export-without-way",  # An exported volume can be used only through its protocol
        "export-without-machine",  # An export needs a machine with an address
        "params-without-export",  # iSCSI keys need an exported volume
        "xen-threads-fixed",  # Threads of Dom0's kernel carry a domain's frames
        "image-qemu-old",  # The QEMU version in guest images does not support the NIC
        "leads-elsewhere",  # `host_offload` needs a link to a machine's children
        "xen-ring-fixed",  # Xen's rings have a fixed size of one page
        "join-without-wire",  # An emulated link joins its ends itself
        "pair-of-two",  # A veth pair has two ends, which are namespaces or hosts
        "vlan-on-ipvlan",  # An ipvlan does not carry VLANs
    ]


class ClashOfWay(Conflict):
    """A conflict in the access path to a disk."""

    code: Literal[
        "disk-way-for-others",  # `via: hypervisor` is for guests, `via: user` for other machines
        "initiator-without-export",  # Only kernels and hypervisors log in to exported volumes
        "no-nvme-initiator",  # Only kernel initiators support NVMe/TCP
    ]
    via: Name


class IdePortsTooFew(Conflict):
    """The SATA controller has too few ports."""

    most: int


class ImageWithoutEngine(Conflict):
    """The parent's image does not support this kind of guest."""

    parent: Name
    image: Name
    engine: Name
    wanted: Name
    """An image that supports the engine."""


class ParentMemoryShort(Conflict):
    """The parent guest has too little memory."""

    parent: Name
    memory_bytes: int


class ParentCpuAbsent(Conflict):
    """The parent guest has too few CPUs."""

    parent: Name
    cpu: int
    cpus: int


class SwitchFinishesNothing(Conflict):
    """A user-space switch cannot forward frames that still need checksums or segmentation."""

    offloads: tuple[Name, ...]
    """Names of offloads in ethtool -K."""


class MtuLimited(Conflict):
    """The MTU exceeds the limit of a user-space switch or of the link below a tunnel."""

    code: Literal["switch-mtu-small", "tunnel-mtu-large"]
    most_bytes: int


class QueuesTooFew(Conflict):
    """A NIC has fewer queue pairs than requested."""

    port: Name
    machine: Name
    pairs: int
    asked: int


class CableEndNoHost(Conflict):
    """A cable ends at a machine that is not a host."""

    machine: Name
    kind: Name


class MacvtapGetsOwnFrames(Conflict):
    """One of several macvtaps receives only frames to its own address."""

    port: Name
    lower: Name
    """The port that the macvtaps share."""


class ClashAtPorts(Conflict):
    """A conflict on several ports."""

    code: Literal[
        "macvtap-finishes-nothing",  # A macvtap does not send frames of the host's stack
        "xen-checksum-fixed",  # A Xen domain's driver always offloads checksums
        "shared-by-namespaces",  # Only namespaces have ports that share an interface
    ]
    ports: tuple[Name, ...]


class OneQueue(Conflict):
    """A NIC has only one queue."""

    card: Name


class DriverRingFixed(Conflict):
    """The NIC driver has a fixed ring size."""

    nic: Name


class RingSizeAbsent(Conflict):
    """A NIC does not support the ring size."""

    nic: Name
    side: Name
    """rx or tx."""
    size: int
    present: tuple[int, ...]


class ClashAtPort(Conflict):
    """A conflict on a port."""

    code: Literal[
        "cards-on-port",  # NICs of guests that are directly on the parent's port are on no bridge
        "join-on-bridged-port",  # A bridged port cannot be shared
        "l3-on-port",  # Other hosts cannot reach an ipvlan that does not answer ARP
    ]
    port: Name


class ForwardConflict(Conflict):
    """A port cannot forward: it shares an interface and gets only its own frames, or its tunnel has no Ethernet."""

    code: Literal["join-gives-own-frames", "tunnel-of-packets"]
    port: Name
    forward: Name


class TunnelInOwnBridge(Conflict):
    """A tunnel and the port that carries it would be on the same bridge."""

    port: Name
    below: Name


class TunnelTwice(Conflict):
    """Two tunnels cannot be distinguished."""

    other: Name


class BondMtusDiffer(Conflict):
    """The links of a bond have different MTUs."""

    links: tuple[Name, ...]


class Ipv6MtuSmall(Conflict):
    """The MTU is below the minimum of IPv6."""

    least_bytes: int


class LinkMtu(Statement):
    """The MTU of a link."""

    link: Name
    mtu_bytes: int


class SegmentMtusDiffer(TrialWarning):
    """Links of one bridged segment have different MTUs: a bridge drops frames that exceed the MTU of the next port."""

    links: tuple[LinkMtu, ...]
    """Links, in file order."""
