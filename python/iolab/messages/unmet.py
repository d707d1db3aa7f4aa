"""Unmet requirements of hosts and sites, and unsupported features, which make a measure impossible in a cell.

Types only.
"""

from typing import Literal

from iolab.messages.places import Computer, PortOn, Purpose
from iolab.messages.statement import Name, Quoted, Statement


class UnmetRequirement(Statement, kind=True):
    """A reason why a measure is impossible in a cell."""


class PartLack(UnmetRequirement, kind=True):
    """A missing requirement of a part of the lab."""

    purpose: Purpose


class HostLack(PartLack, kind=True):
    """A requirement of a part of the lab that a host does not meet."""

    host: Computer


class SeveralLacks(UnmetRequirement):
    """Several unmet requirements."""

    lacks: tuple[UnmetRequirement, ...]


class WholeKernel(PartLack):
    """A setting that applies to the whole kernel and cannot be set in a namespace."""


class SettingNotPermitted(PartLack):
    """A kernel setting outside networking that the user has not permitted."""

    setting: Name


class WriteNotConsented(PartLack):
    """The command line does not permit writing to an existing target."""

    identity: Name
    """Identity that the command line must name."""


class OtherArchitecture(PartLack):
    """The architecture of a host differs from that of the guest images."""

    machine: Name
    architecture: Name
    images: Name
    """Architecture of the images."""


class PlainHostLack(HostLack):
    """An unmet requirement without further parameters."""

    code: Literal[
        "root-needed",  # The setting requires root
        "capabilities-absent",  # Root cannot create network namespaces, as in an unprivileged container
        "user-namespaces-refused",  # The kernel does not permit namespaces of ordinary users
        "macvtap-not-allowed",  # An ordinary user cannot open the macvtap device
        "newer-qemu-absent",  # There is no QEMU 8 or newer
        "iscsi-driver-absent",  # QEMU's iSCSI driver is not installed
        "turbo-fixed",  # The kernel cannot set turbo
        "xen-absent",  # The host is not a Dom0 of Xen
    ]


class ProgramAbsent(UnmetRequirement):
    """A program is not installed."""

    host: Computer
    program: Name
    package: Name
    """Name of the Debian package."""


class ProgramLack(HostLack):
    """A program that is not available."""

    code: Literal[
        "named-program-absent",  # A program in the experiment does not exist on the host
        "switch-absent",  # The user-space switch is not installed
        "program-not-asked-for",  # The host's facts do not cover the program
    ]
    program: Name


class ImageAbsent(UnmetRequirement):
    """The guest image does not exist yet."""

    image: Name
    """Flavour of the image."""


class InterfaceLack(HostLack):
    """An interface that cannot be used."""

    code: Literal[
        "control-interface",  # The interface carries an ssh connection
        "interfaces-absent",  # The host has no such interface, and no other interface
        "name-taken",  # The host already has an interface with this name
        "pause-absent",  # The NIC does not support pause frames
    ]
    interface: Name


class InterfaceAbsent(HostLack):
    """The host does not have this interface, but it has others."""

    interface: Name
    present: tuple[Name, ...]


class NetworkInUse(HostLack):
    """The host has addresses or routes in an IPv4 network of the lab."""

    network: Name
    """Network of the lab."""
    used: Name
    """Network of the host."""
    interface: Name


class MemoryShort(HostLack):
    """The host has too little memory."""

    memory_bytes: int


class CpuAbsent(HostLack):
    """The host has no online CPU with this number."""

    cpu: int
    online: Name
    """CPU list in kernel syntax: 0-3,8."""


class GovernorAbsent(HostLack):
    """The kernel does not have this frequency governor."""

    governor: Name
    present: tuple[Name, ...]


class FrequencyFixed(HostLack):
    """The kernel does not control the CPU frequency."""

    governor: Name


class CoalescingAbsent(HostLack):
    """The NIC supports only other coalescing settings."""

    interface: Name
    setting: Name
    present: tuple[Name, ...]


class CoalescingFixed(HostLack):
    """The NIC has no coalescing settings."""

    interface: Name
    setting: Name


class ImageWithoutPackage(PartLack):
    """A guest image lacks a package."""

    image: Name
    package: Name


class ImageNotInstalled(PartLack):
    """A guest's image lacks a program whose package is known."""

    machine: Name
    program: Name
    package: Name


class ImageWithoutProgram(PartLack):
    """A guest image lacks a program."""

    image: Name
    program: Name


class ImageWithoutModule(PartLack):
    """The kernel of a guest image lacks a module."""

    image: Name
    module: Name


class ModuleAbsent(HostLack):
    """The host's kernel lacks a module; guest images lack the module too, or a guest may have it."""

    code: Literal["module-absent", "module-in-guest"]
    module: Name


class CongestionUnknown(HostLack):
    """The kernel does not have this congestion control algorithm."""

    congestion: Name
    """The requested algorithm."""
    present: tuple[Name, ...]
    """The available algorithms."""


class CongestionNotAllowed(HostLack):
    """Only CAP_NET_ADMIN can choose this algorithm (ip-sysctl, tcp_allowed_congestion_control)."""

    congestion: Name
    """The requested algorithm."""


class ModuleInGuests(HostLack):
    """The kernel lacks a module that guests may have, and these machines can be guests."""

    module: Name
    machines: tuple[Name, ...]


class SiteLacksCable(UnmetRequirement):
    """A site has no cable for a link between hosts."""

    site: Name
    """The site file."""
    link: Name
    ends: tuple[PortOn, ...]
    hosts: tuple[Name, ...]
    """Hosts that the cable would connect."""


class SiteHasEnds(UnmetRequirement):
    """A level changes the ends of a link, which the site sets."""

    path: Name
    """Path in the experiment file that the level sets."""
    site: Name
    link: Name


class SiteHasVolume(UnmetRequirement):
    """A level changes a volume that the site provides."""

    path: Name
    """Path in the experiment file that the level sets."""
    site: Name
    volume: Name


class SiteHasPlace(UnmetRequirement):
    """A level moves a machine that the site places on a host."""

    path: Name
    site: Name
    machine: Name
    host: Name


class SiteSetsNothing(UnmetRequirement):
    """A level changes a key of a machine that is a host on the site, where the key has no effect."""

    path: Name
    machine: Name
    host: Computer
    key: Name


class SiteRefuses(UnmetRequirement):
    """Settings that are valid elsewhere conflict on a site."""

    site: Name
    problems: tuple[Quoted, ...]
    """Problems that the check of the lab reported."""


class NotSupported(PartLack, kind=True):
    """A feature that iolab does not support yet on any host."""


class PlainUnbuilt(NotSupported):
    """An unsupported feature without further parameters."""

    code: Literal[
        "function-vlan-unbuilt",  # VLANs on virtual functions
        "wire-unbuilt",  # An emulated link between ports other than those of namespaces or of guests with taps
        "etf-unbuilt",  # A qdisc that needs transmit times
        "loop-unbuilt",  # A link from a host to itself
    ]


class KindUnsupported(NotSupported):
    """A kind of instrument or measure."""

    code: Literal["instrument-unbuilt", "measure-unbuilt"]
    kind: Name
