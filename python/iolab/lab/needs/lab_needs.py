"""What the parts of a lab need of the kernels they are on: this computer's, other hosts', those of guest images."""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.links import Shape
from iolab.experiment.machines import Host, HostTuning, Machine, Vm
from iolab.lab.cards.settings import coalescing_words
from iolab.lab.cards.sriov import function_needs
from iolab.lab.cards.tuning import tuned_cards
from iolab.lab.compose import compose
from iolab.lab.guests.switch import MOST_MTU_BYTES
from iolab.lab.guests.vm import DRIVERS, NEEDS_NEWER, VHOST, card_ports, image_of, queue_pairs
from iolab.lab.kernels import HERE, kernel_of, parent_kernel
from iolab.lab.links.link_topology import (
    Join,
    guest_at,
    home_of,
    is_card,
    is_function,
    is_macvtap,
    join_of,
    own_ends,
)
from iolab.lab.links.macvtaps import macvtap_needs
from iolab.lab.needs.need import DOM0, IMAGE, NEWER_QEMU, OTHER_HOST, SWITCH, Need, NeedKind
from iolab.lab.ports.offloads import offload_needs, offload_switches
from iolab.lab.topology import Port, Topology, make_topology
from iolab.units import format_bytes


def lab_needs(lab: Lab) -> tuple[Need, ...]:
    """Return what machines and links need of the kernels they are on, each once.

    Raises:
        InputError: names or addresses clash, or ends are on kernels that do not meet.
    """
    if wrong := (*_cables(lab), *function_needs(lab)):
        return wrong
    compose(lab)
    topology = make_topology(lab)
    found: list[Need] = []
    for name, machine in lab.machines.items():
        found += _machine(lab, name, machine)
        if isinstance(machine, Vm):
            found += _guest(lab, topology, name, machine)
        if isinstance(machine, Host):
            found += _tuning(lab, name, machine)
            found += _processors(lab, name, machine)
    found += (*offload_needs(lab), *macvtap_needs(lab))
    for name in lab.links:
        found += _link(lab, topology, name)
    for port in topology.ports():
        found += _names(lab, port)
    return tuple(dict.fromkeys(found))


def where(lab: Lab, kernel: str) -> str:
    """Return who must have what is needed on a kernel."""
    if kernel == HERE:
        return ""
    return f"{IMAGE}{image_of(lab, kernel)}" if lab.machines[kernel].kind == "vm" else f"{OTHER_HOST}{kernel}"


def _machine(lab: Lab, name: str, machine: Machine) -> Iterator[Need]:
    what, there = f"machine {name}", where(lab, kernel_of(lab, name))
    if machine.forward == "xdp":
        yield Need(NeedKind.ROOT, "XDP programs", f"forward: xdp of {what}", there)
    if machine.forward == "bridge":
        yield Need(NeedKind.FEATURE, "link:bridge", f"forward: bridge of {what}", there, (name,))
    for setting in machine.settings:
        if machine.kind == "netns" and setting.startswith("net.core.") and setting not in PER_NETNS:
            yield Need(NeedKind.WHOLE_KERNEL, setting, f"setting {setting} of {what}")
        if not setting.startswith("net."):
            yield Need(NeedKind.ROOT, setting, f"setting {setting} of {what}", there)


def _guest(lab: Lab, topology: Topology, name: str, machine: Vm) -> Iterator[Need]:
    """Give what a guest needs of its parent, and of its image."""
    what, parent = f"machine {name}", parent_kernel(lab, name)
    there = where(lab, parent)
    of_host = parent == HERE or lab.machines[parent].kind == "host"
    if of_host:
        yield Need(NeedKind.IMAGE, image_of(lab, name), what)
        yield Need(NeedKind.ARCHITECTURE, image_of(lab, name), what, there)
    elif (flavour := image_of(lab, parent)) in HYPERVISORS and machine.engine not in HYPERVISORS[flavour]:
        wanted = next(name for name, engines in HYPERVISORS.items() if machine.engine in engines)
        seen = f"its parent {parent} has the image {flavour}, which does not start guests of engine {machine.engine}"
        yield Need(NeedKind.SENSE, f"{seen}; give {parent} `image: {wanted}`", what)
    yield from _memory(lab, name, machine)
    if machine.engine == "xen":
        if machine.pin_io:
            seen = "the frames of a domain are carried by threads of Dom0's kernel; remove pin_io"
            yield Need(NeedKind.SENSE, seen, f"pin_io of {what}")
        yield Need(NeedKind.FEATURE, DOM0, what, there)
        yield Need(NeedKind.ROOT, "xl", f"engine: xen of {what}", there)
        yield Need(NeedKind.PROGRAM, "xl", what, there)
        yield Need(NeedKind.FEATURE, "xen:netback", what, there)
        return
    yield Need(NeedKind.PROGRAM, QEMU, what, there)
    if not isinstance(machine.pin, str):
        yield from _cpus(lab, parent, machine.pin, f"pin of {what}")
    yield from _cpus(lab, parent, machine.pin_io, f"pin_io of {what}")
    if card_ports(lab, topology, name):
        yield from _tuning(lab, name, machine)
        yield from _guest_cards(lab, name, machine, of_host)


def _memory(lab: Lab, name: str, machine: Vm) -> Iterator[Need]:
    """Give the memory that a guest takes from its parent."""
    parent, purpose = parent_kernel(lab, name), f"memory of machine {name}"
    owner = lab.machines.get(parent)
    if not isinstance(owner, Vm):
        yield Need(NeedKind.MEMORY, str(machine.memory), purpose, where(lab, parent))
    elif machine.memory > owner.memory:
        seen = f"{parent}, which it is on, has {format_bytes(owner.memory)} in all; give {parent} more"
        yield Need(NeedKind.SENSE, seen, purpose)


def _cpus(lab: Lab, kernel: str, cpus: tuple[int, ...], purpose: str) -> Iterator[Need]:
    """Give the CPUs of a kernel that something is to run on."""
    owner = lab.machines.get(kernel)
    for cpu in cpus:
        if not isinstance(owner, Vm):
            yield Need(NeedKind.CPU, str(cpu), purpose, where(lab, kernel))
        elif cpu >= owner.cpus:
            seen = f"{kernel} has no CPU {cpu}; give it more `cpus`: it has {owner.cpus}"
            yield Need(NeedKind.SENSE, seen, purpose)


def _guest_cards(lab: Lab, name: str, machine: Vm, of_host: bool) -> Iterator[Need]:
    """Give what a guest's cards need of its parent, and of its image."""
    there, image = where(lab, parent_kernel(lab, name)), f"{IMAGE}{image_of(lab, name)}"
    card = f"nic: {machine.nic} of machine {name}"
    if is_function(lab, name):
        yield Need(NeedKind.ROOT, "sr-iov", card, there)
        yield Need(NeedKind.FEATURE, "device:vfio", card, there)
    elif not is_macvtap(machine):
        yield Need(NeedKind.FEATURE, "link:tun", card, there)
    elif of_host:
        yield Need(NeedKind.CAPABILITY, "macvtap", card, there)
    if machine.nic in VHOST:
        around = [machine for link in lab.links for machine in _machines_of(lab, link)
                  if name in _machines_of(lab, link)]  # fmt: skip
        yield Need(NeedKind.FEATURE, "device:vhost-net", card, there, tuple(dict.fromkeys(around)))
    if machine.nic in NEEDS_NEWER and not of_host:
        seen = "the QEMU in guest images is too old to have this card; put the machine on a computer"
        yield Need(NeedKind.SENSE, seen, card)
    if machine.nic in NEEDS_NEWER and of_host:
        yield Need(NeedKind.PROGRAM, NEWER_QEMU, card, there)
    if machine.nic == "vhost-user" and of_host:
        yield Need(NeedKind.FEATURE, SWITCH, card, there)
        yield from _switched(lab, name, card)
    if is_function(lab, name) and of_host:
        return  # which card the computer has, and so which driver the guest needs, is seen when it starts
    driver = DRIVERS[machine.nic]
    yield Need(NeedKind.FEATURE, f"nic:{CARDS.get(driver, driver)}", card, image)


def _switched(lab: Lab, name: str, card: str) -> Iterator[Need]:
    """Tell what a switch in user space does not carry: frames without their checksums, and too large ones."""
    for link in (lab.links[link] for link in lab.links if name in _machines_of(lab, link)):
        asked = [word for word, switch in offload_switches(link.offload).items() if switch == "on"]
        if wrong := [word for word in asked if word in ("tx", "tso")]:
            seen = f"its switch passes no frame on that is to be finished elsewhere; leave {', '.join(wrong)} away"
            yield Need(NeedKind.SENSE, seen, card)
        if link.mtu > MOST_MTU_BYTES:
            yield Need(NeedKind.SENSE, f"its switch carries an mtu of up to {MOST_MTU_BYTES}", card)


def _tuning(lab: Lab, name: str, machine: Vm | Host) -> Iterator[Need]:
    """Give what is needed of the cards that `host` is about: the machine's own, or those on a guest's way."""
    if machine.host == HostTuning():
        return
    what, asked = f"host of machine {name}", machine.host
    cards = tuned_cards(lab, name)
    if not cards and isinstance(machine, Host):
        seen = f"no link with a cable ends at {name}, so it has no card in this lab"
        advice = "give it one (`cable: true`), or write `host` at the guest whose frames pass a card"
        yield Need(NeedKind.SENSE, f"{seen}; {advice}", what)
    elif not cards:
        seen = f"no card of its parent carries the frames of {name}, only interfaces without queues or interrupts"
        advice = (
            "join it to a port of its parent that another link joins to other computers, or leave `host` away"
        )
        yield Need(NeedKind.SENSE, f"{seen}; {advice}", what)
    for ref in cards:
        owner = lab.machines[ref.machine]
        there = where(lab, kernel_of(lab, ref.machine))
        if asked.queues is not None:
            yield Need(NeedKind.PROGRAM, "ethtool", what, there)
        if isinstance(owner, Host):
            yield from _settings(ref.port, asked, what, there)
        yield Need(NeedKind.ROOT, "host", what, there)
        yield from _cpus(lab, kernel_of(lab, ref.machine), asked.irq_cpus, what)
        if isinstance(owner, Vm) and asked.queues is not None and asked.queues > queue_pairs(owner):
            pairs = queue_pairs(owner)
            seen = f"{ref} has {pairs} queue pair{'s' if pairs > 1 else ''}, and {asked.queues} are asked for"
            yield Need(NeedKind.SENSE, f"{seen}; give {ref.machine} as many `queues`", what)


def _settings(card: str, asked: HostTuning, what: str, there: str) -> Iterator[Need]:
    """Give what a card must be able to set of its interrupts and pause frames."""
    for word in coalescing_words(asked.coalesce):
        yield Need(NeedKind.COALESCING, f"{card} {word}", f"coalesce of {what}", there)
    if coalescing_words(asked.pause):
        yield Need(NeedKind.PAUSE, card, f"pause of {what}", there)


def _processors(lab: Lab, name: str, machine: Host) -> Iterator[Need]:
    """Give what a computer's kernel must be able to set of its processors."""
    asked, there = machine.processors, where(lab, kernel_of(lab, name))
    if asked.governor is not None:
        yield Need(NeedKind.GOVERNOR, asked.governor, f"governor of machine {name}", there)
        yield Need(NeedKind.ROOT, "processors", f"governor of machine {name}", there)
    if asked.turbo is not None:
        yield Need(NeedKind.TURBO, "turbo", f"turbo of machine {name}", there)
        yield Need(NeedKind.ROOT, "processors", f"turbo of machine {name}", there)


def _link(lab: Lab, topology: Topology, name: str) -> Iterator[Need]:
    link, what = lab.links[name], f"link {name}"
    if link.cable:
        yield from _cable(lab, topology, name)
        return
    there, join = where(lab, home_of(lab, name)), join_of(lab, name)
    machines = _machines_of(lab, name)
    if offload_switches(link.host_offload):
        yield Need(NeedKind.PROGRAM, "ethtool", f"host_offload on {what}", there)
    cards = [end for end in own_ends(lab, name) if is_card(lab, end)]
    for program in ("ip", "tc"):
        yield Need(NeedKind.PROGRAM, program, what, there)
    plugged = join is Join.MACVTAP or len(cards) < len(own_ends(lab, name))
    if plugged and join not in (Join.TAP, Join.FUNCTIONS):
        yield Need(NeedKind.FEATURE, "link:veth", what, there, machines)
    if join in (Join.BRIDGE, Join.CHILDREN):
        yield Need(NeedKind.FEATURE, "link:bridge", what, there, machines)
    for end in cards:
        guest = guest_at(lab, end)
        if is_macvtap(guest):
            yield Need(NeedKind.FEATURE, "link:macvtap", f"nic: {guest.nic} of {end}", there, machines)
    yield from _ends(lab, topology, name)
    if link.shape is not None:
        yield from _shape(lab, f"shape on {what}", link.shape)
    if join is Join.PAIR and all(lab.machines[machine].kind == "host" for machine in machines):
        yield Need(NeedKind.BUILT, "a link from this computer to itself", what)


def _cable(lab: Lab, topology: Topology, name: str) -> Iterator[Need]:
    """Give what a cable needs of each of its hosts."""
    link, what = lab.links[name], f"link {name}"
    for kernel in dict.fromkeys(kernel_of(lab, machine) for machine in _machines_of(lab, name)):
        yield Need(NeedKind.ROOT, "cable", f"cable of {what}", where(lab, kernel))
        for program in ("ip", "tc"):
            yield Need(NeedKind.PROGRAM, program, what, where(lab, kernel))
    yield from _ends(lab, topology, name)
    if link.shape is not None:
        yield from _shape(lab, f"shape on {what}", link.shape)


def _ends(lab: Lab, topology: Topology, name: str) -> Iterator[Need]:
    """Give what the ends of a link need, each of its own kernel."""
    link, what = lab.links[name], f"link {name}"
    ports = [port for port in topology.ports() if port.link == name]
    for kernel in dict.fromkeys(port.kernel for port in ports):
        own = tuple(dict.fromkeys(port.machine for port in ports if port.kernel == kernel))
        if link.vlan is not None:
            yield Need(NeedKind.FEATURE, "link:vlan", f"vlan {link.vlan} on {what}", where(lab, kernel), own)
        if offload_switches(link.offload):
            yield Need(NeedKind.PROGRAM, "ethtool", f"offload on {what}", where(lab, kernel))


def _shape(lab: Lab, what: str, shape: Shape) -> Iterator[Need]:
    machine = shape.at.machine
    there = where(lab, kernel_of(lab, machine))
    if shape.qdisc != "pacer":
        yield Need(NeedKind.FEATURE, f"qdisc:{shape.qdisc}", what, there, (machine,))
    if any(one.src or one.dst for one in shape.classes.values()):
        yield Need(NeedKind.FEATURE, "filter:u32", f"classes of {what}", there, (machine,))


def _machines_of(lab: Lab, link: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(end.machine for end in lab.links[link].ends))


def _cables(lab: Lab) -> Iterator[Need]:
    """Tell of cables that cannot be: they are plugged into computers."""
    for name, link in lab.links.items():
        for machine in _machines_of(lab, name):
            kind = lab.machines[machine].kind
            if link.cable and kind != "host":
                reason = f"{machine} is of kind {kind}; a cable joins interfaces of machines of kind host"
                yield Need(NeedKind.SENSE, reason, f"cable of link {name}")


def _names(lab: Lab, port: Port) -> Iterator[Need]:
    """Give the names that must be free, or must be there, in the own namespace of this computer or another host."""
    if port.netns is not None or (port.kernel != HERE and lab.machines[port.kernel].kind == "vm"):
        return
    there = where(lab, port.kernel)
    kind = NeedKind.INTERFACE if join_of(lab, port.link) is Join.CABLE else NeedKind.FREE_NAME
    yield Need(kind, port.name, f"port {port.ref}", there)
    if port.bridge:
        yield Need(NeedKind.FREE_NAME, port.bridge, f"the bridge of machine {port.machine}", there)


QEMU = "qemu-system-x86_64"
HYPERVISORS: dict[str, tuple[str, ...]] = {"linux": (), "host": (), "nested": ("qemu",), "xen": ("xen",)}
"""Flavour of our images to the engines that it has; others are what their makers made them."""
CARDS = {"virtio_net": "virtio-net", "8139cp": "rtl8139"}
"""Driver to the card's name in features, where it is another."""
PER_NETNS = tuple(
    f"net.core.{name}"
    for name in ("somaxconn", "optmem_max", "txrehash", "tstamp_allow_data", "rps_default_mask", "xfrm_acq_expires",
                 "xfrm_aevent_etime", "xfrm_aevent_rseqth", "xfrm_larval_drop")
)  # fmt: skip
"""Settings of net.core that a namespace may write (Linux 6.18; the others are read-only there, or absent)."""
