"""Why a measure cannot be done in a cell anywhere: choices that do not go together. Types only."""

from iolab.statements.lacks import PartLack
from iolab.statements.statement import Name


class Clash(PartLack, kind=True):
    """A choice that does not go together with the others."""


class ParentPortAbsent(Clash):
    """No port of a parent could give a virtual function."""

    link: Name


class BridgedToCard(Clash):
    """Ends would be bridged to a card that has virtual functions."""

    ends: tuple[Name, ...]
    link: Name


class InstalledOnGuest(Clash):
    """A guest on a guest has its parent's image: nothing can be installed for it alone."""

    parent: Name


class NamespaceHasNoCard(Clash):
    """A namespace has no card to be split."""

    machine: Name


class CardWithoutFunctions(Clash):
    """A guest's card has no virtual functions."""

    nic: Name
    machine: Name


class FunctionsTooMany(Clash):
    """A card has fewer virtual functions."""

    port: Name
    most: int


class FunctionGetsOwnFrames(Clash):
    """A virtual function gets no frame to another address."""

    machine: Name


class XenBusFixed(Clash):
    """A Xen domain has a bus of its own."""


class BusWithoutGuest(Clash):
    """Only a guest has disks on a bus."""


class DiskCacheWithoutQemu(Clash):
    """Only QEMU has a cache to choose."""


class ThrottleWithoutQemu(Clash):
    """QEMU slows disks down."""


class DiskWayForOthers(Clash):
    """A guest has a hypervisor, and others a storage daemon, that speaks for them."""

    via: Name


class InitiatorWithoutExport(Clash):
    """Kernels and hypervisors log in to exported volumes."""

    via: Name


class KernelInitiatorInNamespace(Clash):
    """A kernel's initiator is of the whole kernel."""


class NoNvmeInitiator(Clash):
    """NVMe/TCP is spoken by kernels alone."""

    via: Name


class HypervisorWithoutAddress(Clash):
    """A hypervisor logs in from the address of its guest's parent, and is QEMU."""


class ExportWithoutWay(Clash):
    """An exported volume is reached by its protocol alone."""


class ExportWithoutMachine(Clash):
    """An export needs a machine with an address."""


class ParamsWithoutExport(Clash):
    """Nobody logs in to a volume that is not exported."""


class IdePortsTooFew(Clash):
    """There are fewer ports of SATA."""

    most: int


class ImageWithoutEngine(Clash):
    """A parent's image does not start such guests."""

    parent: Name
    image: Name
    engine: Name
    wanted: Name
    """An image that does."""


class XenThreadsFixed(Clash):
    """Threads of Dom0's kernel carry a domain's frames."""


class ParentMemoryShort(Clash):
    """A parent that is a guest has less memory."""

    parent: Name
    memory_bytes: int


class ParentCpuAbsent(Clash):
    """A parent that is a guest has fewer CPUs."""

    parent: Name
    cpu: int
    cpus: int


class ImageQemuOld(Clash):
    """The QEMU in guest images lacks the card."""


class SwitchFinishesNothing(Clash):
    """A switch in user space passes no unfinished frames on."""

    offloads: tuple[Name, ...]
    """As ethtool -K names them."""


class SwitchMtuSmall(Clash):
    """A switch in user space carries smaller frames."""

    most_bytes: int


class HostWithoutCard(Clash):
    """A host has no card in the lab."""

    machine: Name


class GuestWithoutCard(Clash):
    """No card carries a guest's frames."""

    machine: Name


class QueuesTooFew(Clash):
    """A card has fewer queue pairs than asked for."""

    port: Name
    machine: Name
    pairs: int
    asked: int


class CableEndNoHost(Clash):
    """A cable ends at a machine that is no host."""

    machine: Name
    kind: Name


class MacvtapGetsOwnFrames(Clash):
    """One of several macvtaps gets only frames to its own address."""

    port: Name
    lower: Name
    """The port that it shares."""


class LeadsElsewhere(Clash):
    """A link does not lead to a machine's children."""


class MacvtapFinishesNothing(Clash):
    """A macvtap sends nothing for the stack."""

    ports: tuple[Name, ...]


class XenChecksumFixed(Clash):
    """A domain's driver always leaves checksums to others."""

    ports: tuple[Name, ...]


class OneQueue(Clash):
    """A card has one queue."""

    card: Name


class XenRingFixed(Clash):
    """Rings of Xen are one page."""


class DriverRingFixed(Clash):
    """A card's driver has one ring size."""

    nic: Name


class RingSizeAbsent(Clash):
    """A card has other ring sizes."""

    nic: Name
    side: Name
    """rx or tx."""
    size: int
    present: tuple[int, ...]


class JoinWithoutWire(Clash):
    """An emulated path joins two taps, or two bridges, by itself."""


class PairOfTwo(Clash):
    """A veth pair has two ends, which are namespaces or hosts."""


class CardsOnPort(Clash):
    """Cards of guests that are on their parent's port itself are on no bridge."""

    port: Name


class SharedByNamespaces(Clash):
    """Only namespaces have ports that share an interface."""

    ports: tuple[Name, ...]


class JoinGivesOwnFrames(Clash):
    """A port that shares an interface gets no frame to another address."""

    port: Name
    forward: Name


class VlanOnIpvlan(Clash):
    """An ipvlan carries no VLAN."""


class JoinOnBridgedPort(Clash):
    """A port that is on a bridge can be shared by nothing."""

    port: Name


class L3OnPort(Clash):
    """Nobody outside finds an ipvlan that answers no ARP."""

    port: Name


class TunnelMtuLarge(Clash):
    """The kernel wraps no packet that does not fit the link below."""

    most_bytes: int


class TunnelOfPackets(Clash):
    """A tunnel without Ethernet cannot be bridged."""

    port: Name
    forward: Name


class TunnelInOwnBridge(Clash):
    """A tunnel and what carries it would be on one bridge."""

    port: Name
    below: Name


class TunnelTwice(Clash):
    """Two tunnels that nothing tells apart."""

    other: Name


class BondMtusDiffer(Clash):
    """The parts of a bond have one MTU."""

    links: tuple[Name, ...]


class Ipv6MtuSmall(Clash):
    """IPv6 needs packets of a least size."""

    least_bytes: int
