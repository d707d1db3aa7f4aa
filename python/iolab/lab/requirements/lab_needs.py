"""Requirements of a lab's parts that kernels must meet: those of the local host, of other hosts and of guest images."""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Host, HostTuning, Machine, Vm
from iolab.lab.compose import compose
from iolab.lab.endpoints import VERSIONS
from iolab.lab.guests.start import MOST_MTU_BYTES
from iolab.lab.guests.vm import card_ports, image_of, queue_pairs
from iolab.lab.hosts.tuning import coalescing_words, tuned_cards, tunings
from iolab.lab.kernels import HERE, kernel_of, parent_kernel
from iolab.lab.links.link_topology import (
    is_function,
    is_macvtap,
)
from iolab.lab.links.overlays import mtu_of, overlay_needs
from iolab.lab.links.shared import join_needs, macvtap_needs
from iolab.lab.links.sriov import function_needs
from iolab.lab.ports.offloads import offload_needs, offload_switches
from iolab.lab.requirements.link_parts import cables, link_parts, machines_of, names, wire_parts
from iolab.lab.requirements.need import (
    DOM0,
    IMAGE,
    NAMESPACES,
    NEWER_QEMU,
    SWITCH,
    Need,
    NeedKind,
    Wanted,
    where,
)
from iolab.lab.services import standing_needs
from iolab.lab.topology import Topology, cpus_of, topology_of
from iolab.lab.volumes.needs import joint_needs
from iolab.messages.conflicts import (
    ClashAtMachine,
    ImageWithoutEngine,
    InstalledOnGuest,
    MtuLimited,
    ParentCpuAbsent,
    ParentMemoryShort,
    PlainClash,
    QueuesTooFew,
    SwitchFinishesNothing,
)
from iolab.messages.places import (
    ForLink,
    ForMachine,
    ForMachines,
    KeyOf,
    Purpose,
    SettingOf,
    ValueOf,
)
from iolab.messages.unmet import WholeKernel
from iolab.registry.images import flavour_of_image
from iolab.registry.nics import NICS

HARMLESS = (
    "net.", "vm.dirty_", "vm.swappiness", "vm.vfs_cache_pressure", "vm.nr_hugepages", "kernel.numa_balancing",
    "kernel.sched_", "kernel.timer_migration", "kernel.watchdog", "kernel.nmi_watchdog", "fs.aio-max-nr",
)  # fmt: skip
"""Prefixes of settings that every experiment may set; none of these settings makes the kernel start a program, load
code or write to a path."""
PROTECTIVE = ("net.core.bpf_jit_harden", "net.core.bpf_jit_kallsyms", "net.ipv4.ip_unprivileged_port_start")
"""Settings with one of the prefixes in `HARMLESS` that protect the kernel or its other users, so they need
permission."""


def lab_needs(lab: Lab, known: Topology | None = None) -> tuple[Wanted, ...]:
    """Return the requirements of machines and links, without duplicates.

    `known` is the topology of a composed lab that differs at most in tuning, pinning, queues, CPUs and memory.

    Raises:
        InputError: names or addresses conflict, or the kernels of ends cannot be joined.
    """
    if wrong := (*cables(lab), *function_needs(lab), *join_needs(lab), *overlay_needs(lab)):
        return wrong
    if known is None:
        compose(lab)
    else:
        tunings(lab)
    topology = known or topology_of(lab)
    found: list[Wanted] = []
    for name, machine in lab.machines.items():
        found += _machine(lab, name, machine)
        program_cpus = KeyOf(key="program_cpus", part=ForMachine(machine=name))
        found += _cpus(lab, kernel_of(lab, name), cpus_of(lab, name), program_cpus)
        if isinstance(machine, Vm):
            found += _guest(lab, topology, name, machine)
        if isinstance(machine, Host):
            found += _tuning(lab, name, machine)
            found += _processors(lab, name, machine)
    found += _namespaces(lab)
    found += (*offload_needs(lab), *macvtap_needs(lab), *joint_needs(lab, where), *standing_needs(lab, where))
    for name in lab.links:
        found += (*link_parts(lab, topology, name), *wire_parts(lab, topology, name))
    for port in topology.ports():
        found += names(lab, port)
    found += _networks(lab, topology)
    return tuple(dict.fromkeys(found))


def _machine(lab: Lab, name: str, machine: Machine) -> Iterator[Wanted]:
    there, forward = where(lab, kernel_of(lab, name)), _asked(name, "forward", machine.forward)
    if machine.forward == "xdp":
        yield Need(NeedKind.ROOT, "XDP programs", forward, there)
    if machine.forward == "bridge":
        yield Need(NeedKind.FEATURE, "link:bridge", forward, there, (name,))
    for setting in machine.settings:
        if machine.kind == "netns" and setting.startswith("net.core.") and setting not in PER_NETNS:
            yield WholeKernel(purpose=SettingOf(setting=setting, machine=name))
        if not setting.startswith("net."):
            yield Need(NeedKind.ROOT, setting, SettingOf(setting=setting, machine=name), there)
        if not there.startswith(IMAGE) and not is_harmless(setting):
            yield Need(NeedKind.PERMISSION, setting, SettingOf(setting=setting, machine=name), there)


def _namespaces(lab: Lab) -> Iterator[Wanted]:
    """Yield the right to create network namespaces, once for each host on which machines or links need namespaces."""
    linked = {end.machine for link in lab.links.values() for end in link.ends}
    wanted: dict[str, list[str]] = {}
    for name, machine in lab.machines.items():
        if machine.kind == "netns" or (machine.kind == "vm" and name in linked):
            wanted.setdefault(where(lab, parent_kernel(lab, name)), []).append(name)
    for there, machines in wanted.items():
        if not there.startswith(IMAGE):
            yield Need(NeedKind.CAPABILITY, NAMESPACES, ForMachines(machines=tuple(machines)), there)


def _guest(lab: Lab, topology: Topology, name: str, machine: Vm) -> Iterator[Wanted]:
    """Yield the requirements of a guest that its parent and its image must meet."""
    purpose, parent = ForMachine(machine=name), parent_kernel(lab, name)
    there = where(lab, parent)
    of_host = parent == HERE or lab.machines[parent].kind == "host"
    if of_host:
        yield Need(NeedKind.IMAGE, image_of(lab, name), purpose)
        yield Need(NeedKind.ARCHITECTURE, image_of(lab, name), purpose, there)
    elif machine.engine not in HYPERVISORS.get(
        flavour := flavour_of_image(image_of(lab, parent)), (machine.engine,)
    ):
        wanted = next(name for name, engines in HYPERVISORS.items() if machine.engine in engines)
        yield ImageWithoutEngine(
            purpose=purpose, parent=parent, image=flavour, engine=machine.engine, wanted=wanted
        )
    if not of_host and machine.install:
        yield InstalledOnGuest(purpose=KeyOf(key="install", part=purpose), parent=parent)
    yield from _memory(lab, name, machine)
    if machine.engine == "xen":
        if machine.pin_io:
            yield PlainClash(code="xen-threads-fixed", purpose=KeyOf(key="pin_io", part=purpose))
        yield Need(NeedKind.FEATURE, DOM0, purpose, there)
        yield Need(NeedKind.ROOT, "xl", _asked(name, "engine", machine.engine), there)
        yield Need(NeedKind.PROGRAM, "xl", purpose, there)
        yield Need(NeedKind.FEATURE, "xen:netback", purpose, there)
        return
    yield Need(NeedKind.PROGRAM, QEMU, purpose, there)
    if not isinstance(machine.pin, str):
        yield from _cpus(lab, parent, machine.pin, KeyOf(key="pin", part=purpose))
    yield from _cpus(lab, parent, machine.pin_io, KeyOf(key="pin_io", part=purpose))
    if card_ports(lab, topology, name):
        yield from _tuning(lab, name, machine)
        yield from _guest_cards(lab, name, machine, of_host)


def _memory(lab: Lab, name: str, machine: Vm) -> Iterator[Wanted]:
    """Yield the memory that a guest uses on its parent.

    For the last guest of a parent, also yield the total memory of all its guests, because they run at the same time.
    """
    parent = parent_kernel(lab, name)
    there = [
        (one, guest)
        for one, guest in lab.machines.items()
        if isinstance(guest, Vm) and parent_kernel(lab, one) == parent
    ]
    names = tuple(one for one, _ in there)
    if names[-1] == name and len(there) > 1:
        total = sum(guest.memory for _, guest in there)
        yield from _taken(lab, parent, total, KeyOf(key="memory", part=ForMachines(machines=names)))
    yield from _taken(lab, parent, machine.memory, KeyOf(key="memory", part=ForMachine(machine=name)))


def _taken(lab: Lab, parent: str, memory_bytes: int, purpose: Purpose) -> Iterator[Wanted]:
    owner = lab.machines.get(parent)
    if not isinstance(owner, Vm):
        yield Need(NeedKind.MEMORY, str(memory_bytes), purpose, where(lab, parent))
    elif memory_bytes > owner.memory:
        yield ParentMemoryShort(purpose=purpose, parent=parent, memory_bytes=owner.memory)


def _cpus(lab: Lab, kernel: str, cpus: tuple[int, ...], purpose: Purpose) -> Iterator[Wanted]:
    """Yield the CPUs of a kernel on which threads are pinned."""
    owner = lab.machines.get(kernel)
    for cpu in cpus:
        if not isinstance(owner, Vm):
            yield Need(NeedKind.CPU, str(cpu), purpose, where(lab, kernel))
        elif cpu >= owner.cpus:
            yield ParentCpuAbsent(purpose=purpose, parent=kernel, cpu=cpu, cpus=owner.cpus)


def _guest_cards(lab: Lab, name: str, machine: Vm, of_host: bool) -> Iterator[Wanted]:
    """Yield the requirements of a guest's NICs that its parent and its image must meet."""
    there, image = where(lab, parent_kernel(lab, name)), f"{IMAGE}{image_of(lab, name)}"
    card = _asked(name, "nic", machine.nic)
    if is_function(lab, name):
        yield Need(NeedKind.ROOT, "sr-iov", card, there)
        yield Need(NeedKind.FEATURE, "device:vfio", card, there)
    elif not is_macvtap(machine):
        yield Need(NeedKind.FEATURE, "link:tun", card, there)
    elif of_host:
        yield Need(NeedKind.CAPABILITY, "macvtap", card, there)
    if NICS[machine.nic].vhost:
        around = [machine for link in lab.links for machine in machines_of(lab, link)
                  if name in machines_of(lab, link)]  # fmt: skip
        yield Need(NeedKind.FEATURE, "device:vhost-net", card, there, tuple(dict.fromkeys(around)))
    if NICS[machine.nic].newer_qemu and not of_host:
        yield PlainClash(code="image-qemu-old", purpose=card)
    if NICS[machine.nic].newer_qemu and of_host:
        yield Need(NeedKind.PROGRAM, NEWER_QEMU, card, there)
    if machine.nic == "vhost-user" and of_host:
        yield Need(NeedKind.FEATURE, SWITCH, card, there)
        yield from _switched(lab, name, card)
    if is_function(lab, name) and of_host:
        return  # the host's NIC model, and so the driver for the guest, is known only when the guest starts
    yield Need(NeedKind.FEATURE, NICS[machine.nic].feature, card, image)


def _switched(lab: Lab, name: str, card: Purpose) -> Iterator[Wanted]:
    """Yield conflicts with a user-space switch: frames without checksums, and frames that are too large."""
    for at, link in ((at, lab.links[at]) for at in lab.links if name in machines_of(lab, at)):
        asked = [word for word, switch in offload_switches(link.offload).items() if switch == "on"]
        if wrong := tuple(word for word in asked if word in ("tx", "tso")):
            yield SwitchFinishesNothing(purpose=card, offloads=wrong)
        if mtu_of(lab, at) > MOST_MTU_BYTES:
            yield MtuLimited(code="switch-mtu-small", purpose=card, most_bytes=MOST_MTU_BYTES)


def _tuning(lab: Lab, name: str, machine: Vm | Host) -> Iterator[Wanted]:
    """Yield the requirements for the NICs to which the key `host` applies.

    The key applies to the machine's own NICs, or to those on a guest's path.
    """
    if machine.host == HostTuning():
        return
    purpose, asked = KeyOf(key="host", part=ForMachine(machine=name)), machine.host
    cards = tuned_cards(lab, name)
    if not cards and isinstance(machine, Host):
        yield ClashAtMachine(code="host-without-card", purpose=purpose, machine=name)
    elif not cards:
        yield ClashAtMachine(code="guest-without-card", purpose=purpose, machine=name)
    for ref in cards:
        owner = lab.machines[ref.machine]
        there = where(lab, kernel_of(lab, ref.machine))
        if asked.queues is not None:
            yield Need(NeedKind.PROGRAM, "ethtool", purpose, there)
        if isinstance(owner, Host):
            yield from _settings(ref.port, asked, purpose, there)
        yield Need(NeedKind.ROOT, "host", purpose, there)
        yield from _cpus(lab, kernel_of(lab, ref.machine), asked.irq_cpus, purpose)
        if isinstance(owner, Vm) and asked.queues is not None and asked.queues > queue_pairs(owner):
            yield QueuesTooFew(
                purpose=purpose, port=ref, machine=ref.machine, pairs=queue_pairs(owner), asked=asked.queues
            )


def _settings(card: str, asked: HostTuning, purpose: Purpose, there: str) -> Iterator[Wanted]:
    """Yield the interrupt and pause settings that a NIC must support."""
    for word in coalescing_words(asked.coalesce):
        yield Need(NeedKind.COALESCING, f"{card} {word}", KeyOf(key="coalesce", part=purpose), there)
    if coalescing_words(asked.pause):
        yield Need(NeedKind.PAUSE, card, KeyOf(key="pause", part=purpose), there)


def _processors(lab: Lab, name: str, machine: Host) -> Iterator[Wanted]:
    """Yield the processor settings that a host's kernel must support."""
    asked, there = machine.processors, where(lab, kernel_of(lab, name))
    governor, turbo = (KeyOf(key=key, part=ForMachine(machine=name)) for key in ("governor", "turbo"))
    if asked.governor is not None:
        yield Need(NeedKind.GOVERNOR, asked.governor, governor, there)
        yield Need(NeedKind.ROOT, "processors", governor, there)
    if asked.turbo is not None:
        yield Need(NeedKind.TURBO, "turbo", turbo, there)
        yield Need(NeedKind.ROOT, "processors", turbo, there)


def _networks(lab: Lab, topology: Topology) -> Iterator[Wanted]:
    """Yield the networks, including routed ones, that must not be in use on a host that is a machine of the lab."""
    for name, machine in lab.machines.items():
        if not isinstance(machine, Host):
            continue
        there = where(lab, kernel_of(lab, name))
        own = " ".join(port.name for port in topology.ports() if port.machine == name)
        for segment in topology.segments:
            networks = [segment.network_of(ip) for ip in VERSIONS] if segment.has(name) else []
            for network in filter(None, networks):
                yield Need(NeedKind.FREE_NETWORK, f"{network} {own}", ForLink(link=segment.name), there)
        for route in topology.routes():
            if route.machine == name:
                needed = f"{route.destination} {own}"
                yield Need(NeedKind.FREE_NETWORK, needed, ForMachine(machine=name), there)


def _asked(machine: str, key: str, value: str) -> Purpose:
    return ValueOf(key=key, value=value, part=ForMachine(machine=machine))


def is_harmless(setting: str) -> bool:
    """Whether every experiment may set a setting; others, such as kernel.core_pattern, need the user's permission."""
    name = setting.replace("/", ".")
    return name.startswith(HARMLESS) and name not in PROTECTIVE


QEMU = "qemu-system-x86_64"
HYPERVISORS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("linux", "linux-cloud", "linux-backports", "host"), ()), "nested": ("qemu",), "xen": ("xen",),
}  # fmt: skip
"""Engines that iolab's images contain, by the images' flavour; the contents of other images are unknown."""
PER_NETNS = tuple(
    f"net.core.{name}"
    for name in ("somaxconn", "optmem_max", "txrehash", "tstamp_allow_data", "rps_default_mask", "xfrm_acq_expires",
                 "xfrm_aevent_etime", "xfrm_aevent_rseqth", "xfrm_larval_drop")
)  # fmt: skip
"""Settings in net.core that a namespace can write (Linux 6.18; the others are read-only or absent in namespaces)."""
