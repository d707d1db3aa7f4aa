"""One thing that a cell needs, and whether a host has it: what is lacking comes with what to do."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from iolab.lab.guests.switch import PROGRAM as TESTPMD
from iolab.lab.hosts.facts import ONLINE_CPUS, Facts, ProcessorFacts, cpu_list
from iolab.parts.registry import programs
from iolab.units import format_bytes


class NeedKind(StrEnum):
    """What kind of thing is needed."""

    BUILT = "built"
    """A part of iolab that is not built yet: lacking everywhere."""
    FEATURE = "feature"
    """A kernel feature, by its name in the facts."""
    PROGRAM = "program"
    """An installed program."""
    ROOT = "root"
    """An agent that runs as root, not in namespaces of an ordinary user."""
    CAPABILITY = "capability"
    """Something that the agent may do there, by its name in the agent's greeting."""
    WHOLE_KERNEL = "whole-kernel"
    """A setting that no namespace has of its own: lacking everywhere."""
    FREE_NAME = "free-name"
    """An interface name that the computer itself does not use."""
    MEMORY = "memory"
    """So much memory [bytes]."""
    CPU = "cpu"
    """A CPU that is online, by its number."""
    GOVERNOR = "governor"
    """A frequency governor that the kernel can set."""
    TURBO = "turbo"
    """A kernel that switches turbo."""
    COALESCING = "coalescing"
    """A setting of a card's interrupts, as "INTERFACE SETTING"."""
    PAUSE = "pause"
    """A card with pause frames, by its interface."""
    INTERFACE = "interface"
    """An interface that the computer has."""
    IMAGE = "image"
    """A guest image, by its flavour."""
    ARCHITECTURE = "architecture"
    """A computer of the kind that guest images are for: this one's."""
    SENSE = "sense"
    """A choice that goes together with the others; the name says why it does not: lacking everywhere."""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a cell needs."""

    kind: NeedKind
    """What kind of thing."""
    name: str
    """Which one."""
    purpose: str
    """What for, in the words of the file: "vlan 100 on link lan"."""
    where: str = ""
    """Who must have it: "" this computer, "image:linux" a guest with that image, "host:pc6" another host."""
    machines: tuple[str, ...] = ()
    """The machines that could be put elsewhere, where it is lacking."""


def lacking_of(found: Iterable[Need], facts: Facts) -> str | None:
    """Return everything that is lacking, in one line; None where all needs are met."""
    later: dict[str, list[str]] = {}
    reasons: dict[str, None] = {}
    for need in dict.fromkeys(found):
        reason = lacking(need, facts)
        if need.kind is NeedKind.BUILT:
            later.setdefault(need.name, []).append(need.purpose)
        elif reason:
            reasons[reason] = None
    if later:
        parts = (f"{name} ({', '.join(purposes)})" for name, purposes in later.items())
        reasons = {f"not yet in this version of iolab: {', '.join(parts)}": None} | reasons
    return "; ".join(reasons) or None


def lacking(need: Need, facts: Facts) -> str | None:
    """Return what is lacking on a host and what to do about it; None where the need is met.

    What another host has is known when it has been reached.
    """
    if need.where.startswith(OTHER_HOST):
        return _lacking_there(need, facts, need.where.removeprefix(OTHER_HOST))
    if need.where.startswith(IMAGE):
        return _lacking_in_image(need, facts, need.where.removeprefix(IMAGE))
    match need.kind:
        case NeedKind.BUILT:
            return f"{need.purpose}: {need.name}: not yet in this version of iolab"
        case NeedKind.FEATURE:
            return _lacking_feature(need, facts)
        case NeedKind.WHOLE_KERNEL:
            return f"{need.purpose}: it belongs to the whole kernel; give it to a machine of kind host"
        case NeedKind.SENSE:
            return f"{need.purpose}: {need.name}"
        case NeedKind.PROGRAM | NeedKind.ROOT | NeedKind.CAPABILITY | NeedKind.IMAGE | NeedKind.ARCHITECTURE:
            return _lacking_means(need, facts)
        case NeedKind.FREE_NAME | NeedKind.INTERFACE | NeedKind.COALESCING | NeedKind.PAUSE:
            return _lacking_interface(need, facts)
        case NeedKind.CPU | NeedKind.MEMORY | NeedKind.GOVERNOR | NeedKind.TURBO:
            return _lacking_hardware(need, facts)


def _lacking_there(need: Need, facts: Facts, host: str) -> str | None:
    """Return what another host lacks; one that is not reached yet lacks nothing."""
    there = facts.hosts.get(host)
    if there is None:
        return None
    if need.kind is NeedKind.ARCHITECTURE and there.architecture != facts.architecture:
        return (
            f"{need.purpose}: {host} is {there.architecture}, the guest images here are for {facts.architecture}; "
            "put it on a computer of that kind, or run iolab on one like that host"
        )
    told = lacking(replace(need, where=""), there)
    return f"{host}: {told.replace('this computer', 'it')}" if told else None


def _lacking_means(need: Need, facts: Facts) -> str | None:
    if need.kind is NeedKind.ROOT and facts.rootless:
        return f"{need.purpose}: an ordinary user may not set it; run as root"
    if need.kind is NeedKind.CAPABILITY and facts.rootless and need.name not in facts.capabilities:
        return f"{need.purpose}: an ordinary user may not open it; {MACVTAP_ADVICE}"
    if need.name == NEWER_QEMU and facts.programs.get(NEWER_QEMU, "") is None:
        return f"{need.purpose}: this computer has no QEMU 8 or newer; run `iolab image build qemu`"
    if need.kind is NeedKind.PROGRAM and facts.programs and need.name not in facts.programs:
        return f"{need.purpose}: this computer was not asked for {need.name}; name it among the `programs` of its kind"
    if need.kind is NeedKind.PROGRAM and facts.programs.get(need.name, "") is None:
        return (
            f"{need.name} is not installed; install the package {package_of(need.name)}, or run `make setup`"
        )
    if need.kind is NeedKind.IMAGE and all(image.flavour != need.name for image in facts.images):
        return f"there is no guest image {need.name} yet; run `iolab image build {need.name}`"
    return None


def _lacking_interface(need: Need, facts: Facts) -> str | None:
    if need.kind in (NeedKind.COALESCING, NeedKind.PAUSE):
        return _lacking_setting(need, facts)
    known = [interface.name for interface in facts.interfaces]
    if need.kind is NeedKind.INTERFACE:
        if need.name in facts.control_interfaces:
            return (
                f"{need.purpose}: {need.name} carries a connection by ssh to or from this computer, which the cable's "
                "addresses and MTU could cut; take an interface that nothing else uses"
            )
        if need.name in known:
            return None
        return (
            f"{need.purpose}: this computer has no interface {need.name}; it has {', '.join(known) or 'none'}"
        )
    if need.name not in known:
        return None
    return f"{need.purpose}: this computer has an interface {need.name} already; rename the port"


def _lacking_hardware(need: Need, facts: Facts) -> str | None:
    if need.kind in (NeedKind.GOVERNOR, NeedKind.TURBO):
        return _lacking_frequency(need, facts.processors)
    if need.kind is NeedKind.MEMORY:
        if int(need.name) < facts.memory_bytes:
            return None
        return f"{need.purpose}: this computer has {format_bytes(facts.memory_bytes)} in all; give it less"
    online = facts.settings.get(ONLINE_CPUS)
    if online is None or int(need.name) in cpu_list(online):
        return None
    return f"{need.purpose}: this computer has no CPU {need.name}; it has {online.strip()}"


def _lacking_frequency(need: Need, processors: ProcessorFacts) -> str | None:
    if need.kind is NeedKind.TURBO:
        switched = processors.turbo is not None
        return None if switched else f"{need.purpose}: this computer switches no turbo; remove it"
    if need.name in processors.available_governors:
        return None
    known = ", ".join(processors.available_governors)
    seen = f"has the governors {known}" if known else "sets no frequency, as most virtual machines"
    return f"{need.purpose}: this computer {seen}; remove {need.name}, or take one that it has"


def _lacking_setting(need: Need, facts: Facts) -> str | None:
    interface, _, setting = need.name.partition(" ")
    card = next((one for one in facts.interfaces if one.name == interface), None)
    if card is None:  # another need says that it is not there
        return None
    if need.kind is NeedKind.PAUSE:
        return (
            None
            if card.pause
            else f"{need.purpose}: this computer has no pause frames at {interface}; remove it"
        )
    if setting in card.coalescing:
        return None
    known = ", ".join(card.coalescing) or "nothing of the kind"
    return f"{need.purpose}: this computer cannot set {setting} of {interface}; it can set {known}"


def package_of(program: str) -> str:
    """Return the Debian package of a program."""
    return ({program: program} | PACKAGES | programs())[program]


def _lacking_in_image(need: Need, facts: Facts, flavour: str) -> str | None:
    """Return what a guest's kernel, or the root of its image, lacks; its rights are those of root."""
    image = next((image for image in facts.images if image.flavour == flavour), None)
    measures = need.kind is NeedKind.PROGRAM and need.name in programs()
    if measures and image is not None and image.packages and package_of(need.name) not in image.packages:
        seen = f"the guest image {flavour} has no {package_of(need.name)}"
        return f"{need.purpose}: {seen}; run `iolab image build {flavour}`"
    if need.kind is not NeedKind.FEATURE or image is None or image.features.get(need.name) is not False:
        return None
    module = _module(need.name)
    return f"{need.purpose}: the kernel of the guest image {flavour} has no {module}; take another image"


def _module(feature: str) -> str:
    return MODULES.get(feature, feature.replace("qdisc:", "sch_"))


def _lacking_feature(need: Need, facts: Facts) -> str | None:
    if facts.features.get(need.name) is not False:  # what could not be tried may work
        return None
    if need.name == SWITCH:
        return f"{need.purpose}: {TESTPMD} is not installed; install the package dpdk-dev"
    if need.name == DOM0:
        return f"{need.purpose}: this computer does not run Xen, or is not its Dom0; put it `on` a vm with image: xen"
    module = _module(need.name)
    told = f"{need.purpose}: this kernel has no {module}; load the module"
    if any(image.features.get(need.name) is False for image in facts.images):
        return told
    machines = " and ".join(f"`{name}`" for name in need.machines) or "the machine"
    return f"{told}, or put {machines} in a vm"


NEWER_QEMU = "qemu 8"
"""A QEMU that has the newer cards, among the programs of this computer's facts."""
SWITCH = "switch:vhost-user"
"""Feature of a computer that has the switch in user space."""
DOM0 = "xen:dom0"
"""Feature of a kernel that makes domains."""
IMAGE, OTHER_HOST = "image:", "host:"
MACVTAP_ADVICE = (
    "run as root, or let sudo open it: install a copy of iolab-agent as /usr/local/libexec/iolab-agent, owned by root, "
    "and give sudo the line `USER ALL=(root) NOPASSWD: /usr/local/libexec/iolab-agent open-macvtap`"
)
"""What makes a user's agent able to open macvtaps."""
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "taskset": "util-linux", "ps": "procps",
            "qemu-system-x86_64": "qemu-system-x86", "xl": "xen-utils"}  # fmt: skip
"""Debian package of a program, where it has another name."""
MODULES = {
    "link:veth": "veth",
    "link:bridge": "bridge",
    "link:vlan": "8021q",
    "link:macvtap": "macvtap",
    "link:tun": "tun",
    "device:vhost-net": "vhost_net",
    "xen:netback": "xen_netback",
    "nic:rtl8139": "8139cp",
    "nic:virtio-net": "virtio_net",
    "filter:u32": "cls_u32",
}
"""Kernel module of a feature; those of queueing disciplines are called after them: sch_htb."""
