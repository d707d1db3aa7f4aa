"""A requirement of a cell, and the check whether a host meets it."""

from collections.abc import Iterable
from enum import StrEnum
from ipaddress import IPv4Network

from iolab.experiment.experiment import Lab
from iolab.frozen import frozen
from iolab.lab.endpoints import version_of
from iolab.lab.guests.start import PROGRAM as TESTPMD
from iolab.lab.guests.vm import image_of
from iolab.lab.hosts.facts import CONGESTION_LOADED, ONLINE_CPUS, Facts, ProcessorFacts, cpu_list
from iolab.lab.kernels import HERE
from iolab.messages.places import Computer, Purpose, computer
from iolab.messages.unmet import (
    CoalescingAbsent,
    CoalescingFixed,
    CongestionNotAllowed,
    CongestionUnknown,
    CpuAbsent,
    FrequencyFixed,
    GovernorAbsent,
    ImageAbsent,
    ImageWithoutModule,
    ImageWithoutPackage,
    ImageWithoutProgram,
    InterfaceAbsent,
    InterfaceLack,
    MemoryShort,
    ModuleAbsent,
    ModuleInGuests,
    NetworkInUse,
    OtherArchitecture,
    PlainHostLack,
    ProgramAbsent,
    ProgramLack,
    SettingNotPermitted,
    SeveralLacks,
    UnmetRequirement,
)
from iolab.registry.images import FEATURE_MODULES
from iolab.registry.registry import programs


class NeedKind(StrEnum):
    """The kind of a requirement."""

    FEATURE = "feature"
    """A kernel feature, by its name in the facts."""
    PROGRAM = "program"
    """An installed program."""
    NAMED_PROGRAM = "named-program"
    """A program in the experiment, by its name or path."""
    ROOT = "root"
    """An agent that runs as root, not in the namespaces of an ordinary user."""
    CAPABILITY = "capability"
    """A capability of the agent, by its name in the agent's greeting."""
    FREE_NETWORK = "free-network"
    """An IPv4 network that the host does not use, as "NETWORK OWN-INTERFACE ...": the interfaces are those that the lab
    configures."""
    FREE_NAME = "free-name"
    """An interface name that is free on the host."""
    MEMORY = "memory"
    """An amount of memory [bytes]."""
    CPU = "cpu"
    """An online CPU, by its number."""
    GOVERNOR = "governor"
    """A frequency governor that the kernel supports."""
    TURBO = "turbo"
    """A kernel that can set turbo."""
    COALESCING = "coalescing"
    """A coalescing setting that a NIC supports, as "INTERFACE SETTING"."""
    PAUSE = "pause"
    """A NIC that supports pause frames, by its interface."""
    INTERFACE = "interface"
    """An existing interface of the host."""
    IMAGE = "image"
    """A guest image, by its flavour."""
    PERMISSION = "permission"
    """The user's permission to set a kernel setting, by its name."""
    ARCHITECTURE = "architecture"
    """A host with the architecture of the guest images, which is that of the local host."""


@frozen
class Need:
    """A requirement of a cell."""

    kind: NeedKind
    """Kind of the requirement."""
    name: str
    """Name of the required object."""
    purpose: Purpose
    """Part of the lab that has the requirement."""
    where: str = ""
    """The party that must meet the requirement: "" the local host, "image:linux" a guest with that image, "host:pc6" a
    different host."""
    machines: tuple[str, ...] = ()
    """Machines that can be moved elsewhere if the requirement is not met."""


Wanted = Need | UnmetRequirement
"""A requirement for a host, or an unmet requirement that no host can meet."""


def together(lacks: Iterable[UnmetRequirement]) -> UnmetRequirement | None:
    """Combine unmet requirements into one, without duplicates; None if there are none."""
    found = tuple(dict.fromkeys(lacks))
    return SeveralLacks(lacks=found) if len(found) > 1 else next(iter(found), None)


def lacking(wanted: Wanted, facts: Facts) -> UnmetRequirement | None:
    """Return a requirement as an unmet requirement; None if the host meets it.

    A requirement for another host counts as met until that host has been reached.
    """
    if isinstance(wanted, UnmetRequirement):
        return wanted
    if wanted.kind is NeedKind.PERMISSION:
        unpermitted = wanted.name not in facts.permitted_settings
        return SettingNotPermitted(purpose=wanted.purpose, setting=wanted.name) if unpermitted else None
    if wanted.where.startswith(IMAGE):
        return _lacking_in_image(wanted, facts, wanted.where.removeprefix(IMAGE))
    name = wanted.where.removeprefix(OTHER_HOST)
    there = facts.hosts.get(name) if name else facts
    if there is None:
        return None
    if wanted.kind is NeedKind.ARCHITECTURE:
        same = there.architecture == facts.architecture
        other = OtherArchitecture(
            purpose=wanted.purpose, machine=name, architecture=there.architecture, images=facts.architecture
        )
        return None if same else other
    return _lacking_there(wanted, there, computer(name))


def _lacking_there(need: Need, facts: Facts, host: Computer) -> UnmetRequirement | None:
    """Return the unmet requirement of a host."""
    match need.kind:
        case NeedKind.FEATURE:
            return _lacking_feature(need, facts, host)
        case NeedKind.NAMED_PROGRAM:
            absent = need.name in facts.programs and facts.programs[need.name] is None
            return (
                ProgramLack(code="named-program-absent", purpose=need.purpose, host=host, program=need.name)
                if absent
                else None
            )
        case NeedKind.ROOT:
            return (
                PlainHostLack(code="root-needed", purpose=need.purpose, host=host) if facts.rootless else None
            )
        case NeedKind.CAPABILITY | NeedKind.PROGRAM | NeedKind.IMAGE:
            return _lacking_means(need, facts, host)
        case NeedKind.FREE_NETWORK:
            return _used_network(need, facts, host)
        case NeedKind.COALESCING | NeedKind.PAUSE:
            return _lacking_setting(need, facts, host)
        case NeedKind.FREE_NAME | NeedKind.INTERFACE:
            return _lacking_interface(need, facts, host)
        case NeedKind.GOVERNOR | NeedKind.TURBO:
            return _lacking_frequency(need, facts.processors, host)
        case _:
            return _lacking_hardware(need, facts, host)


def _lacking_means(need: Need, facts: Facts, host: Computer) -> UnmetRequirement | None:
    if need.kind is NeedKind.CAPABILITY and need.name == NAMESPACES:
        return _without_namespaces(need, facts, host)
    if need.kind is NeedKind.CAPABILITY:
        refused = facts.rootless and need.name not in facts.capabilities
        return PlainHostLack(code="macvtap-not-allowed", purpose=need.purpose, host=host) if refused else None
    if need.kind is NeedKind.IMAGE:
        built = any(image.flavour == need.name for image in facts.images)
        return None if built else ImageAbsent(image=need.name)
    return _lacking_program(need, facts, host)


def _without_namespaces(need: Need, facts: Facts, host: Computer) -> UnmetRequirement | None:
    """Return the reason why no network namespace can be created: missing rights of root or of a user."""
    # None: the agent's capabilities are not known.
    if not facts.capabilities or NAMESPACES in facts.capabilities:
        return None
    if facts.programs.get("ip", "") is None:
        return ProgramAbsent(host=host, program="ip", package=package_of("ip"))
    if facts.uid == 0:
        return PlainHostLack(code="capabilities-absent", purpose=need.purpose, host=host)
    return PlainHostLack(code="user-namespaces-refused", purpose=need.purpose, host=host)


def _lacking_program(need: Need, facts: Facts, host: Computer) -> UnmetRequirement | None:
    found = facts.programs.get(need.name, "")
    if need.name == NEWER_QEMU:
        return (
            PlainHostLack(code="newer-qemu-absent", purpose=need.purpose, host=host)
            if found is None
            else None
        )
    if facts.programs and need.name not in facts.programs:
        return ProgramLack(code="program-not-asked-for", purpose=need.purpose, host=host, program=need.name)
    if found is None:
        return ProgramAbsent(host=host, program=need.name, package=package_of(need.name))
    return None


def _lacking_interface(need: Need, facts: Facts, host: Computer) -> UnmetRequirement | None:
    known, asked = tuple(interface.name for interface in facts.interfaces), need.name
    if need.kind is NeedKind.FREE_NAME:
        return (
            InterfaceLack(code="name-taken", purpose=need.purpose, host=host, interface=asked)
            if asked in known
            else None
        )
    if asked in facts.control_interfaces:
        return InterfaceLack(code="control-interface", purpose=need.purpose, host=host, interface=asked)
    if asked in known:
        return None
    if not known:
        return InterfaceLack(code="interfaces-absent", purpose=need.purpose, host=host, interface=asked)
    return InterfaceAbsent(purpose=need.purpose, host=host, interface=asked, present=known)


def _used_network(need: Need, facts: Facts, host: Computer) -> UnmetRequirement | None:
    """Return the conflict between a lab's network and the host's addresses and routes."""
    asked, *own = need.name.split()
    if version_of(asked) == 6:
        return None  # 2001:2::/48 is reserved for benchmarks, and the facts contain only IPv4 networks
    network = IPv4Network(asked)
    for used in facts.networks:
        if used.interface not in own and network.overlaps(IPv4Network(used.network)):
            return NetworkInUse(
                purpose=need.purpose, host=host, network=asked, used=used.network, interface=used.interface
            )
    return None


def _lacking_hardware(need: Need, facts: Facts, host: Computer) -> UnmetRequirement | None:
    if need.kind is NeedKind.MEMORY:
        enough = int(need.name) < facts.memory_bytes
        short = MemoryShort(purpose=need.purpose, host=host, memory_bytes=facts.memory_bytes)
        return None if enough else short
    online = facts.settings.get(ONLINE_CPUS)
    if online is None or int(need.name) in cpu_list(online):
        return None
    return CpuAbsent(purpose=need.purpose, host=host, cpu=int(need.name), online=online.strip())


def _lacking_frequency(need: Need, processors: ProcessorFacts, host: Computer) -> UnmetRequirement | None:
    if need.kind is NeedKind.TURBO:
        return (
            PlainHostLack(code="turbo-fixed", purpose=need.purpose, host=host)
            if processors.turbo is None
            else None
        )
    known = processors.available_governors
    if need.name in known:
        return None
    if not known:
        return FrequencyFixed(purpose=need.purpose, host=host, governor=need.name)
    return GovernorAbsent(purpose=need.purpose, host=host, governor=need.name, present=tuple(known))


def _lacking_setting(need: Need, facts: Facts, host: Computer) -> UnmetRequirement | None:
    interface, _, setting = need.name.partition(" ")
    card = next((one for one in facts.interfaces if one.name == interface), None)
    if card is None:  # a different requirement reports the missing interface
        return None
    purpose = need.purpose
    if need.kind is NeedKind.PAUSE:
        return (
            None
            if card.pause
            else InterfaceLack(code="pause-absent", purpose=purpose, host=host, interface=interface)
        )
    if setting in card.coalescing:
        return None
    if not card.coalescing:
        return CoalescingFixed(purpose=purpose, host=host, interface=interface, setting=setting)
    return CoalescingAbsent(
        purpose=purpose, host=host, interface=interface, setting=setting, present=tuple(card.coalescing)
    )


def package_of(program: str) -> str:
    """Return the Debian package of a program."""
    return ({program: program} | PACKAGES | programs())[program]


def _lacking_in_image(need: Need, facts: Facts, flavour: str) -> UnmetRequirement | None:
    """Return the unmet requirement of a guest's kernel or image; in a guest, the agent has the rights of root."""
    image = next((image for image in facts.images if image.flavour == flavour), None)
    named = {**programs(), **FILE_SYSTEMS}
    measures = need.kind is NeedKind.PROGRAM and need.name in named
    if measures and image is not None and image.packages and package_of(need.name) not in image.packages:
        return ImageWithoutPackage(purpose=need.purpose, image=flavour, package=package_of(need.name))
    if need.kind is NeedKind.NAMED_PROGRAM and image is not None:
        present = image.programs.get(need.name, True)
        absent = ImageWithoutProgram(purpose=need.purpose, image=flavour, program=need.name)
        return None if present else absent
    if need.kind is not NeedKind.FEATURE or image is None:
        return None
    unknown = need.name.startswith(CONGESTION) and need.name not in BUILT_IN
    if image.features.get(need.name, not unknown) is not False:
        return None
    return ImageWithoutModule(
        purpose=need.purpose, image=flavour, module=FEATURE_MODULES.get(need.name, need.name)
    )


def _unknown_congestion(need: Need, facts: Facts, host: Computer) -> UnmetRequirement | None:
    """Return the unmet requirement of a congestion control algorithm that is neither among the tested nor among the
    loaded ones."""
    asked, loaded = need.name.removeprefix(CONGESTION), facts.settings.get(CONGESTION_LOADED)
    if loaded is None or need.name in facts.features or asked in loaded.split():
        return None
    tried = [
        name.removeprefix(CONGESTION)
        for name, there in facts.features.items()
        if there and CONGESTION in name
    ]
    present = tuple(sorted({*tried, *loaded.split()}))
    return CongestionUnknown(purpose=need.purpose, host=host, congestion=asked, present=present)


def _lacking_feature(need: Need, facts: Facts, host: Computer) -> UnmetRequirement | None:
    if need.name.startswith(CONGESTION) and (unknown := _unknown_congestion(need, facts, host)):
        return unknown
    if facts.features.get(need.name) is not False:  # an untested feature may work
        return None
    purpose, module = need.purpose, FEATURE_MODULES.get(need.name, need.name)
    asked = need.name.removeprefix(CONGESTION)
    if asked != need.name and asked in (facts.settings.get(CONGESTION_LOADED) or "").split():
        return CongestionNotAllowed(purpose=purpose, host=host, congestion=asked)
    if need.name == SWITCH:
        return ProgramLack(code="switch-absent", purpose=purpose, host=host, program=TESTPMD)
    if need.name == QEMU_ISCSI:
        return PlainHostLack(code="iscsi-driver-absent", purpose=purpose, host=host)
    if need.name == DOM0:
        return PlainHostLack(code="xen-absent", purpose=purpose, host=host)
    if any(image.features.get(need.name) is False for image in facts.images):
        return ModuleAbsent(code="module-absent", purpose=purpose, host=host, module=module)
    if not need.machines:
        return ModuleAbsent(code="module-in-guest", purpose=purpose, host=host, module=module)
    return ModuleInGuests(purpose=purpose, host=host, module=module, machines=need.machines)


def where(lab: Lab, kernel: str) -> str:
    """Return the party that must meet a requirement on a kernel."""
    if kernel == HERE:
        return ""
    return f"{IMAGE}{image_of(lab, kernel)}" if lab.machines[kernel].kind == "vm" else f"{OTHER_HOST}{kernel}"


NAMESPACES = "netns"
"""Capability of an agent that can create network namespaces."""
NEWER_QEMU = "qemu 8"
"""QEMU version with newer NICs, among the programs in the facts of the local host."""
SWITCH = "switch:vhost-user"
"""Feature of a host with the user-space switch."""
QEMU_ISCSI = "qemu:iscsi"
"""Feature of a host whose QEMU has an iSCSI driver."""
DOM0 = "xen:dom0"
"""Feature of a kernel that can run Xen domains."""
CONGESTION = "congestion:"
BUILT_IN = (f"{CONGESTION}reno", f"{CONGESTION}cubic")
"""Congestion control algorithms in Linux that need no module."""
IMAGE, OTHER_HOST = "image:", "host:"
FILE_SYSTEMS = {"mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs"}
"""Debian package with the mkfs program of each file system."""
PACKAGES = {"perf": "linux-perf", "ip": "iproute2", "tc": "iproute2", "taskset": "util-linux", "ps": "procps",
            "qemu-system-x86_64": "qemu-system-x86", "xl": "xen-utils",
            TESTPMD: "dpdk-dev", "qemu-storage-daemon": "qemu-system-common",
            "wg": "wireguard-tools",
            "tgtd": "tgt", "qemu-nbd": "qemu-utils", "iscsiadm": "open-iscsi",
            "iscsi-inq": "libiscsi-bin", **FILE_SYSTEMS}  # fmt: skip
"""Debian package of each program, if the names differ."""
