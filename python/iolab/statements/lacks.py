"""Why a measure cannot be done in a cell: what computers and sites lack. Types only."""

from iolab.statements.computers import Computer
from iolab.statements.purposes import Purpose
from iolab.statements.statement import Name, Quoted, Statement


class Lack(Statement):
    """Why a measure cannot be done in a cell."""


class PartLack(Lack):
    """What is lacking for a part of the lab."""

    purpose: Purpose


class HostLack(PartLack):
    """What a computer lacks that a part of the lab needs."""

    host: Computer


class SeveralLacks(Lack):
    """Several things are lacking."""

    code = "several-lacks"
    lacks: tuple[Lack, ...]


class WholeKernel(PartLack):
    """A setting belongs to the whole kernel: no namespace has one of its own."""

    code = "whole-kernel"


class SettingNotPermitted(PartLack):
    """A kernel setting that is not about networks, and that the user has not permitted."""

    code = "setting-not-permitted"
    setting: Name


class OtherArchitecture(PartLack):
    """A host is of another architecture than the guest images."""

    code = "other-architecture"
    machine: Name
    architecture: Name
    images: Name
    """Architecture of the images."""


class RootNeeded(HostLack):
    """An ordinary user may not set it."""

    code = "root-needed"


class CapabilitiesAbsent(HostLack):
    """Root may not make network namespaces, as in a container without privileges."""

    code = "capabilities-absent"


class UserNamespacesRefused(HostLack):
    """An ordinary user may not make network namespaces: the kernel refuses user namespaces."""

    code = "user-namespaces-refused"


class MacvtapNotAllowed(HostLack):
    """An ordinary user may not open the node of a macvtap."""

    code = "macvtap-not-allowed"


class NewerQemuAbsent(HostLack):
    """There is no QEMU 8 or newer."""

    code = "newer-qemu-absent"


class ProgramAbsent(Lack):
    """A program is not installed."""

    code = "program-absent"
    host: Computer
    program: Name
    package: Name
    """Of Debian."""


class NamedProgramAbsent(HostLack):
    """A program that the experiment names is not there."""

    code = "named-program-absent"
    program: Name


class SwitchAbsent(HostLack):
    """The switch in user space is not installed."""

    code = "switch-absent"
    program: Name


class IscsiDriverAbsent(HostLack):
    """QEMU's iSCSI driver is not installed."""

    code = "iscsi-driver-absent"


class ImageAbsent(Lack):
    """There is no such guest image yet."""

    code = "image-absent"
    image: Name
    """Its flavour."""


class ControlInterface(HostLack):
    """The interface carries a connection by ssh."""

    code = "control-interface"
    interface: Name


class InterfaceAbsent(HostLack):
    """There is no such interface, but others."""

    code = "interface-absent"
    interface: Name
    present: tuple[Name, ...]


class InterfacesAbsent(HostLack):
    """There is no such interface, and no other."""

    code = "interfaces-absent"
    interface: Name


class NetworkInUse(HostLack):
    """The computer has addresses or routes in an IPv4 network of the lab."""

    code = "network-in-use"
    network: Name
    """Of the lab."""
    used: Name
    """Of the computer."""
    interface: Name


class NameTaken(HostLack):
    """There is an interface of that name already."""

    code = "name-taken"
    interface: Name


class MemoryShort(HostLack):
    """There is less memory in all."""

    code = "memory-short"
    memory_bytes: int


class CpuAbsent(HostLack):
    """There is no such CPU online."""

    code = "cpu-absent"
    cpu: int
    online: Name
    """As a list of the kernel's: 0-3,8."""


class TurboFixed(HostLack):
    """The kernel does not switch turbo."""

    code = "turbo-fixed"


class GovernorAbsent(HostLack):
    """The kernel has other frequency governors."""

    code = "governor-absent"
    governor: Name
    present: tuple[Name, ...]


class FrequencyFixed(HostLack):
    """The kernel sets no frequency."""

    code = "frequency-fixed"
    governor: Name


class PauseAbsent(HostLack):
    """The card has no pause frames."""

    code = "pause-absent"
    interface: Name


class CoalescingAbsent(HostLack):
    """The card has other settings of its interrupts."""

    code = "coalescing-absent"
    interface: Name
    setting: Name
    present: tuple[Name, ...]


class CoalescingFixed(HostLack):
    """The card has no settings of its interrupts."""

    code = "coalescing-fixed"
    interface: Name
    setting: Name


class ProgramNotAskedFor(HostLack):
    """The computer was not asked whether it has a program."""

    code = "program-not-asked-for"
    program: Name


class ImageWithoutPackage(PartLack):
    """A guest image lacks a package."""

    code = "image-without-package"
    image: Name
    package: Name


class ImageNotInstalled(PartLack):
    """A guest's image lacks a program, whose package is known."""

    code = "image-not-installed"
    machine: Name
    program: Name
    package: Name


class ImageWithoutProgram(PartLack):
    """A guest image has no program of a name."""

    code = "image-without-program"
    image: Name
    program: Name


class ImageWithoutModule(PartLack):
    """The kernel of a guest image lacks a module."""

    code = "image-without-module"
    image: Name
    module: Name


class XenAbsent(HostLack):
    """The computer is no Dom0 of Xen."""

    code = "xen-absent"


class ModuleAbsent(HostLack):
    """The kernel lacks a module, and so do guest images."""

    code = "module-absent"
    module: Name


class CongestionUnknown(HostLack):
    """Nothing of that name controls TCP's congestion there."""

    code = "congestion-unknown"
    congestion: Name
    """As it was asked for."""
    present: tuple[Name, ...]
    """What there is."""


class ModuleInGuest(HostLack):
    """The kernel lacks a module that a guest may have."""

    code = "module-in-guest"
    module: Name


class ModuleInGuests(HostLack):
    """The kernel lacks a module that a guest may have, and these machines can be guests."""

    code = "module-in-guests"
    module: Name
    machines: tuple[Name, ...]


class SiteEnd(Statement):
    """An end of a link, and the computer that it is on."""

    code = "site-end"
    port: Name
    host: Computer


class SiteLacksCable(Lack):
    """A site has no cable for a link between computers."""

    code = "site-lacks-cable"
    site: Name
    """Its file."""
    link: Name
    ends: tuple[SiteEnd, ...]
    hosts: tuple[Name, ...]
    """Those that a cable would join."""


class SiteHasEnds(Lack):
    """A level changes ends of a link that the site decides."""

    code = "site-has-ends"
    path: Name
    """Of what the level changes, in the experiment file."""
    site: Name
    link: Name


class SiteHasPlace(Lack):
    """A level moves a machine that the site has a place for."""

    code = "site-has-place"
    path: Name
    site: Name
    machine: Name
    host: Name


class SiteSetsNothing(Lack):
    """A level changes what of a site's host nothing sets."""

    code = "site-sets-nothing"
    path: Name
    machine: Name
    host: Computer
    key: Name


class SiteRefuses(Lack):
    """Parts that go together elsewhere do not on a site."""

    code = "site-refuses"
    site: Name
    problems: tuple[Quoted, ...]
    """What the check of the lab said."""
