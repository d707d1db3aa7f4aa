"""Why a measure cannot be done in a cell anywhere: choices that do not go together. Types only."""

from iolab.statements.lacks import PartLack
from iolab.statements.statement import Name


class Clash(PartLack):
    """A choice that does not go together with the others."""


class ParentPortAbsent(Clash):
    """No port of a parent could give a virtual function."""

    code = "parent-port-absent"
    link: Name


class BridgedToCard(Clash):
    """Ends would be bridged to a card that has virtual functions."""

    code = "bridged-to-card"
    ends: tuple[Name, ...]
    link: Name


class InstalledOnGuest(Clash):
    """A guest on a guest has its parent's image: nothing can be installed for it alone."""

    code = "installed-on-guest"
    parent: Name


class NamespaceHasNoCard(Clash):
    """A namespace has no card to be split."""

    code = "namespace-has-no-card"
    machine: Name


class CardWithoutFunctions(Clash):
    """A guest's card has no virtual functions."""

    code = "card-without-functions"
    nic: Name
    machine: Name


class FunctionsTooMany(Clash):
    """A card has fewer virtual functions."""

    code = "functions-too-many"
    port: Name
    most: int


class FunctionGetsOwnFrames(Clash):
    """A virtual function gets no frame to another address."""

    code = "function-gets-own-frames"
    machine: Name


class XenBusFixed(Clash):
    """A Xen domain has a bus of its own."""

    code = "xen-bus-fixed"


class BusWithoutGuest(Clash):
    """Only a guest has disks on a bus."""

    code = "bus-without-guest"


class DiskCacheWithoutQemu(Clash):
    """Only QEMU has a cache to choose."""

    code = "disk-cache-without-qemu"


class ThrottleWithoutQemu(Clash):
    """QEMU slows disks down."""

    code = "throttle-without-qemu"


class DiskWayForOthers(Clash):
    """A guest has a hypervisor, and others a storage daemon, that speaks for them."""

    code = "disk-way-for-others"
    via: Name


class InitiatorWithoutExport(Clash):
    """Kernels and hypervisors log in to exported volumes."""

    code = "initiator-without-export"
    via: Name


class KernelInitiatorInNamespace(Clash):
    """A kernel's initiator is of the whole kernel."""

    code = "kernel-initiator-in-namespace"


class NoNvmeInitiator(Clash):
    """NVMe/TCP is spoken by kernels alone."""

    code = "no-nvme-initiator"
    via: Name


class HypervisorWithoutAddress(Clash):
    """A hypervisor logs in from the address of its guest's parent, and is QEMU."""

    code = "hypervisor-without-address"


class ExportWithoutWay(Clash):
    """An exported volume is reached by its protocol alone."""

    code = "export-without-way"


class ExportWithoutMachine(Clash):
    """An export needs a machine with an address."""

    code = "export-without-machine"


class ParamsWithoutExport(Clash):
    """Nobody logs in to a volume that is not exported."""

    code = "params-without-export"


class IdePortsTooFew(Clash):
    """There are fewer ports of SATA."""

    code = "ide-ports-too-few"
    most: int


class ImageWithoutEngine(Clash):
    """A parent's image does not start such guests."""

    code = "image-without-engine"
    parent: Name
    image: Name
    engine: Name
    wanted: Name
    """An image that does."""


class XenThreadsFixed(Clash):
    """Threads of Dom0's kernel carry a domain's frames."""

    code = "xen-threads-fixed"


class ParentMemoryShort(Clash):
    """A parent that is a guest has less memory."""

    code = "parent-memory-short"
    parent: Name
    memory_bytes: int


class ParentCpuAbsent(Clash):
    """A parent that is a guest has fewer CPUs."""

    code = "parent-cpu-absent"
    parent: Name
    cpu: int
    cpus: int


class ImageQemuOld(Clash):
    """The QEMU in guest images lacks the card."""

    code = "image-qemu-old"


class SwitchFinishesNothing(Clash):
    """A switch in user space passes no unfinished frames on."""

    code = "switch-finishes-nothing"
    offloads: tuple[Name, ...]
    """As ethtool -K names them."""


class SwitchMtuSmall(Clash):
    """A switch in user space carries smaller frames."""

    code = "switch-mtu-small"
    most_bytes: int


class HostWithoutCard(Clash):
    """A host has no card in the lab."""

    code = "host-without-card"
    machine: Name


class GuestWithoutCard(Clash):
    """No card carries a guest's frames."""

    code = "guest-without-card"
    machine: Name


class QueuesTooFew(Clash):
    """A card has fewer queue pairs than asked for."""

    code = "queues-too-few"
    port: Name
    machine: Name
    pairs: int
    asked: int


class CableEndNoHost(Clash):
    """A cable ends at a machine that is no host."""

    code = "cable-end-no-host"
    machine: Name
    kind: Name


class MacvtapGetsOwnFrames(Clash):
    """One of several macvtaps gets only frames to its own address."""

    code = "macvtap-gets-own-frames"
    port: Name
    lower: Name
    """The port that it shares."""


class LeadsElsewhere(Clash):
    """A link does not lead to a machine's children."""

    code = "leads-elsewhere"


class MacvtapFinishesNothing(Clash):
    """A macvtap sends nothing for the stack."""

    code = "macvtap-finishes-nothing"
    ports: tuple[Name, ...]


class XenChecksumFixed(Clash):
    """A domain's driver always leaves checksums to others."""

    code = "xen-checksum-fixed"
    ports: tuple[Name, ...]


class OneQueue(Clash):
    """A card has one queue."""

    code = "one-queue"
    card: Name


class XenRingFixed(Clash):
    """Rings of Xen are one page."""

    code = "xen-ring-fixed"


class DriverRingFixed(Clash):
    """A card's driver has one ring size."""

    code = "driver-ring-fixed"
    nic: Name


class RingSizeAbsent(Clash):
    """A card has other ring sizes."""

    code = "ring-size-absent"
    nic: Name
    side: Name
    """rx or tx."""
    size: int
    present: tuple[int, ...]


class JoinWithoutWire(Clash):
    """An emulated path joins two taps, or two bridges, by itself."""

    code = "join-without-wire"


class PairOfTwo(Clash):
    """A veth pair has two ends, which are namespaces or hosts."""

    code = "pair-of-two"


class CardsOnPort(Clash):
    """Cards of guests that are on their parent's port itself are on no bridge."""

    code = "cards-on-port"
    port: Name


class SharedByNamespaces(Clash):
    """Only namespaces have ports that share an interface."""

    code = "shared-by-namespaces"
    ports: tuple[Name, ...]


class JoinGivesOwnFrames(Clash):
    """A port that shares an interface gets no frame to another address."""

    code = "join-gives-own-frames"
    port: Name
    forward: Name


class VlanOnIpvlan(Clash):
    """An ipvlan carries no VLAN."""

    code = "vlan-on-ipvlan"


class JoinOnBridgedPort(Clash):
    """A port that is on a bridge can be shared by nothing."""

    code = "join-on-bridged-port"
    port: Name


class L3OnPort(Clash):
    """Nobody outside finds an ipvlan that answers no ARP."""

    code = "l3-on-port"
    port: Name


class TunnelMtuLarge(Clash):
    """The kernel wraps no packet that does not fit the link below."""

    code = "tunnel-mtu-large"
    most_bytes: int


class TunnelOfPackets(Clash):
    """A tunnel without Ethernet cannot be bridged."""

    code = "tunnel-of-packets"
    port: Name
    forward: Name


class TunnelInOwnBridge(Clash):
    """A tunnel and what carries it would be on one bridge."""

    code = "tunnel-in-own-bridge"
    port: Name
    below: Name


class TunnelTwice(Clash):
    """Two tunnels that nothing tells apart."""

    code = "tunnel-twice"
    other: Name


class BondMtusDiffer(Clash):
    """The parts of a bond have one MTU."""

    code = "bond-mtus-differ"
    links: tuple[Name, ...]


class Ipv6MtuSmall(Clash):
    """IPv6 needs packets of a least size."""

    code = "ipv6-mtu-small"
    least_bytes: int
