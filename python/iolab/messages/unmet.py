"""Why a measure cannot be done in a cell: what computers and sites lack, what is not built. Types only."""

from typing import Literal

from iolab.messages.places import Computer, PortOn, Purpose
from iolab.messages.statement import Name, Quoted, Statement


class UnmetRequirement(Statement, kind=True):
    """Why a measure cannot be done in a cell."""


class PartLack(UnmetRequirement, kind=True):
    """What is lacking for a part of the lab."""

    purpose: Purpose


class HostLack(PartLack, kind=True):
    """What a computer lacks that a part of the lab needs."""

    host: Computer


class SeveralLacks(UnmetRequirement):
    """Several things are lacking."""

    lacks: tuple[UnmetRequirement, ...]


class WholeKernel(PartLack):
    """A setting belongs to the whole kernel: no namespace has one of its own."""


class SettingNotPermitted(PartLack):
    """A kernel setting that is not about networks, and that the user has not permitted."""

    setting: Name


class OtherArchitecture(PartLack):
    """A host is of another architecture than the guest images."""

    machine: Name
    architecture: Name
    images: Name
    """Architecture of the images."""


class PlainHostLack(HostLack):
    """A lack that its code says whole."""

    code: Literal[
        "root-needed",  # An ordinary user may not set it
        "capabilities-absent",  # Root may not make network namespaces, as in a container without privileges
        "user-namespaces-refused",  # The kernel refuses an ordinary user's namespaces
        "macvtap-not-allowed",  # An ordinary user may not open the node of a macvtap
        "newer-qemu-absent",  # There is no QEMU 8 or newer
        "iscsi-driver-absent",  # QEMU's iSCSI driver is not installed
        "turbo-fixed",  # The kernel does not switch turbo
        "xen-absent",  # The computer is no Dom0 of Xen
    ]


class ProgramAbsent(UnmetRequirement):
    """A program is not installed."""

    host: Computer
    program: Name
    package: Name
    """Of Debian."""


class ProgramLack(HostLack):
    """Why a program cannot be had."""

    code: Literal[
        "named-program-absent",  # A program that the experiment names is not there
        "switch-absent",  # The switch in user space is not installed
        "program-not-asked-for",  # The computer was not asked whether it has a program
    ]
    program: Name


class ImageAbsent(UnmetRequirement):
    """There is no such guest image yet."""

    image: Name
    """Its flavour."""


class InterfaceLack(HostLack):
    """Why an interface cannot be had."""

    code: Literal[
        "control-interface",  # The interface carries a connection by ssh
        "interfaces-absent",  # There is no such interface, and no other
        "name-taken",  # There is an interface of that name already
        "pause-absent",  # The card has no pause frames
    ]
    interface: Name


class InterfaceAbsent(HostLack):
    """There is no such interface, but others."""

    interface: Name
    present: tuple[Name, ...]


class NetworkInUse(HostLack):
    """The computer has addresses or routes in an IPv4 network of the lab."""

    network: Name
    """Of the lab."""
    used: Name
    """Of the computer."""
    interface: Name


class MemoryShort(HostLack):
    """There is less memory in all."""

    memory_bytes: int


class CpuAbsent(HostLack):
    """There is no such CPU online."""

    cpu: int
    online: Name
    """As a list of the kernel's: 0-3,8."""


class GovernorAbsent(HostLack):
    """The kernel has other frequency governors."""

    governor: Name
    present: tuple[Name, ...]


class FrequencyFixed(HostLack):
    """The kernel sets no frequency."""

    governor: Name


class CoalescingAbsent(HostLack):
    """The card has other settings of its interrupts."""

    interface: Name
    setting: Name
    present: tuple[Name, ...]


class CoalescingFixed(HostLack):
    """The card has no settings of its interrupts."""

    interface: Name
    setting: Name


class ImageWithoutPackage(PartLack):
    """A guest image lacks a package."""

    image: Name
    package: Name


class ImageNotInstalled(PartLack):
    """A guest's image lacks a program, whose package is known."""

    machine: Name
    program: Name
    package: Name


class ImageWithoutProgram(PartLack):
    """A guest image has no program of a name."""

    image: Name
    program: Name


class ImageWithoutModule(PartLack):
    """The kernel of a guest image lacks a module."""

    image: Name
    module: Name


class ModuleAbsent(HostLack):
    """The kernel lacks a module, and so do guest images, or a guest may have it."""

    code: Literal["module-absent", "module-in-guest"]
    module: Name


class CongestionUnknown(HostLack):
    """Nothing of that name controls TCP's congestion there."""

    congestion: Name
    """As it was asked for."""
    present: tuple[Name, ...]
    """What there is."""


class CongestionNotAllowed(HostLack):
    """The kernel has it, and lets only CAP_NET_ADMIN choose it (ip-sysctl, tcp_allowed_congestion_control)."""

    congestion: Name
    """As it was asked for."""


class ModuleInGuests(HostLack):
    """The kernel lacks a module that a guest may have, and these machines can be guests."""

    module: Name
    machines: tuple[Name, ...]


class SiteLacksCable(UnmetRequirement):
    """A site has no cable for a link between computers."""

    site: Name
    """Its file."""
    link: Name
    ends: tuple[PortOn, ...]
    hosts: tuple[Name, ...]
    """Those that a cable would join."""


class SiteHasEnds(UnmetRequirement):
    """A level changes ends of a link that the site decides."""

    path: Name
    """Of what the level changes, in the experiment file."""
    site: Name
    link: Name


class SiteHasPlace(UnmetRequirement):
    """A level moves a machine that the site has a place for."""

    path: Name
    site: Name
    machine: Name
    host: Name


class SiteSetsNothing(UnmetRequirement):
    """A level changes what of a site's host nothing sets."""

    path: Name
    machine: Name
    host: Computer
    key: Name


class SiteRefuses(UnmetRequirement):
    """Parts that go together elsewhere do not on a site."""

    site: Name
    problems: tuple[Quoted, ...]
    """What the check of the lab said."""


class NotSupported(PartLack, kind=True):
    """A part of iolab that is not built yet: lacking everywhere."""


class PlainUnbuilt(NotSupported):
    """A part that its code says whole."""

    code: Literal[
        "function-vlan-unbuilt",  # VLANs on virtual functions
        "wire-unbuilt",  # A wire between other ports than two of namespaces or of guests with taps
        "etf-unbuilt",  # A qdisc that needs transmit times
        "loop-unbuilt",  # A link from a computer to itself
    ]


class KindUnsupported(NotSupported):
    """A kind of instrument, or of measure."""

    code: Literal["instrument-unbuilt", "measure-unbuilt"]
    kind: Name
