"""Virtual machines as resources: the guest itself on its parent's kernel, then its cards on its own.

What a guest is started with is in `Guest`, and a change of it is another guest; what can be changed while it runs
(where its threads run, active queues, rings of emulated cards) are resources of their own.
"""

from collections.abc import Iterator
from typing import Literal

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.machines import NicKind, Vm
from iolab.lab.carrying import queues_resource, tunings
from iolab.lab.ground import ground, homes, place_of_link, ports_of, side_of
from iolab.lab.guest import (
    Backend,
    FunctionBackend,
    Guest,
    GuestNic,
    MacvtapBackend,
    TapBackend,
    VhostUserBackend,
)
from iolab.lab.kernels import HERE, parent_kernel
from iolab.lab.links import expect_interface, without_ipv6
from iolab.lab.meeting import Join, functions_of, is_card, join_of, mac_of, uplinks
from iolab.lab.resources import (
    FOUND,
    ORIGINAL,
    Command,
    Expectation,
    GuestState,
    Reading,
    Resource,
    Run,
    StartGuest,
)
from iolab.lab.shown import Driver, GuestThreads, HardwareSettings, Interface, InterfaceByMac
from iolab.lab.topology import Port, Topology
from iolab.lab.volumes import guest_disks, volume_keys

DRIVERS: dict[NicKind, str] = {
    "e1000": "e1000",
    "e1000e": "e1000e",
    "igb": "igb",
    "rtl8139": "8139cp",
    "vmxnet3": "vmxnet3",
    "virtio-net": "virtio_net",
    "vhost-net": "virtio_net",
    "vhost-user": "virtio_net",
    "macvtap": "virtio_net",
    "macvtap+vhost": "virtio_net",
    "sr-iov": "igbvf",
}
"""Kind of card to the driver that Linux has for it."""
XEN_DRIVER = "vif"
"""What the kernel calls the driver of a Xen network frontend."""
VHOST: frozenset[NicKind] = frozenset({"vhost-net", "macvtap+vhost"})
"""Kinds whose frames the kernel carries."""
NEEDS_NEWER: frozenset[NicKind] = frozenset({"igb", "vhost-user"})
"""Kinds for which Debian 12's QEMU is too old."""
SETTLE_NS: dict[NicKind, int] = {"e1000": 3_000_000_000}
"""How long frames wait in an emulated card after it was opened, or told what to receive [ns].

QEMU holds them back for 1 s, and the driver's watchdog takes in what came too early every 2 s: latencies of 200 to
900 ms were measured in the first 3 s, and 1 ms from then on. No counter or flag of the card shows it.
"""
MOST_QUEUES = 16
"""Queue pairs that a card is made with at most without being asked for more."""


def guest_resources(lab: Lab, topology: Topology, prefix: str) -> Iterator[Resource]:
    """Return every guest of a lab, and its cards.

    Raises:
        InputError: a guest cannot be as it is described.
    """
    for name, machine in lab.machines.items():
        if isinstance(machine, Vm):
            yield _guest(lab, topology, name, prefix)
            yield Resource(
                key=f"ipv6:{name}",
                machine=name,
                kernel=name,
                needs=(f"vm:{name}",),
                actions=without_ipv6(None),
            )
            yield from _cards(lab, topology, name, machine)


def guest_of(lab: Lab, topology: Topology, name: str, prefix: str) -> Guest:
    """Return a guest as it is to be started.

    Raises:
        InputError: it cannot be as it is described.
    """
    machine = lab.machines[name]
    assert isinstance(machine, Vm)
    virtio = machine.engine == "qemu" and is_virtio(machine.nic)
    return Guest(
        name=name,
        engine=machine.engine,
        image=image_of(lab, name),
        memory_bytes=machine.memory,
        cpus=machine.cpus,
        accel=machine.accel,
        nics=tuple(
            GuestNic(
                name=port.name,
                mac=mac_of(lab, port.ref) or "",
                kind=machine.nic,
                backend=_backend(lab, topology, port, machine, prefix),
                queues=queue_pairs(machine),
                rx_ring=machine.ring.rx if virtio else None,
                tx_ring=machine.ring.tx if virtio else None,
            )
            for port in card_ports(lab, topology, name)
        ),
        disks=guest_disks(lab, name, prefix),
        domains_bytes=sum(one.memory for one in domains_of(lab, name).values()),
        domains_cpus=sum(one.cpus for one in domains_of(lab, name).values()),
        own_cpus=_own_cpus(lab, name, machine),
    )


def domains_of(lab: Lab, name: str) -> dict[str, Vm]:
    """Return the Xen domains that a machine is Dom0 of."""
    found = {child: one for child, one in lab.machines.items() if isinstance(one, Vm) and one.engine == "xen"}
    return {child: one for child, one in found.items() if one.on == name}


def _own_cpus(lab: Lab, name: str, machine: Vm) -> tuple[int, ...]:
    """Return the CPUs of a domain on a guest of ours, after those of Dom0 and of the domains before it."""
    parent = None if machine.on is None else lab.machines[machine.on]
    if machine.engine != "xen" or machine.on is None or not isinstance(parent, Vm):
        return ()
    siblings = domains_of(lab, machine.on)
    before = list(siblings)[: list(siblings).index(name)]
    first = parent.cpus + sum(siblings[one].cpus for one in before)
    return tuple(range(first, first + machine.cpus))


def image_of(lab: Lab, name: str) -> str:
    """Return the flavour of a guest's image: as written, or the smallest that has what its children need.

    A guest on a guest has its parent's own: nothing is copied into a guest.
    """
    machine = lab.machines[name]
    if isinstance(machine, Vm) and machine.image is not None:
        return machine.image
    parent = parent_kernel(lab, name)
    if parent != HERE and lab.machines[parent].kind == "vm":
        return image_of(lab, parent)
    engines = {one.engine for one in lab.machines.values() if isinstance(one, Vm) and one.on == name}
    return "xen" if "xen" in engines else "nested" if engines else "linux"


def card_ports(lab: Lab, topology: Topology, name: str) -> list[Port]:
    """Return the ports of a guest that are its cards, in the order of the links."""
    return [
        port
        for link in lab.links
        for port in ports_of(lab, topology, link)
        if port.machine == name and is_card(lab, port.ref)
    ]


def is_virtio(nic: NicKind) -> bool:
    """Tell whether the guest sees a virtio card."""
    return DRIVERS[nic] == "virtio_net"


def queue_pairs(machine: Vm) -> int:
    """Return with how many queue pairs a card is made: virtio with one per CPU, so that a guest can change how many
    it uses without a restart; a switch sends into every queue that there is."""
    if machine.engine == "xen" or not is_virtio(machine.nic):
        return 1
    if machine.nic == "vhost-user":
        return machine.queues
    return max(machine.queues, min(machine.cpus, MOST_QUEUES))


def _backend(lab: Lab, topology: Topology, port: Port, machine: Vm, prefix: str) -> Backend:
    vhost = machine.nic in VHOST
    join = join_of(lab, port.link)
    if join is Join.CABLE:
        allowed = "interfaces of hosts at both ends of a cable"
        advice = "join the guest to its parent's interface by a link of the two"
        seen = f"{port.ref}, a card of a guest"
        raise InputError([Problem(f"lab.links.{port.link}.cable", "joining ports", seen, allowed, advice)])
    if join is Join.FUNCTIONS:
        (uplink,) = uplinks(lab, port.link)
        return FunctionBackend(uplink.partition(".")[2], functions_of(lab, uplink).index(port.ref))
    side = side_of(lab, topology, port, prefix)
    if side is not None and side.macvtap is not None:
        return MacvtapBackend(side.netns, side.macvtap, vhost)
    if side is None:
        (other,) = (one for one in ports_of(lab, topology, port.link) if one.ref != port.ref)
        netns, tap = other.netns, other.name
    else:
        netns, tap = side.netns, side.interface
    if machine.nic == "vhost-user":
        return VhostUserBackend(netns, tap, f"{port.name}.sock")
    return TapBackend(netns, tap, vhost)


def _guest(lab: Lab, topology: Topology, name: str, prefix: str) -> Resource:
    guest = guest_of(lab, topology, name, prefix)
    kernel = parent_kernel(lab, name)
    needs: list[str] = [*ground(lab, kernel), *volume_keys(lab.machines[name])]
    for port in card_ports(lab, topology, name):
        place = place_of_link(lab, topology, port.link, prefix)
        nic = next(nic for nic in guest.nics if nic.name == port.name)
        if join_of(lab, port.link) is Join.TAP:
            others = (one for one in ports_of(lab, topology, port.link) if one.ref != port.ref)
            needs += [key for other in others for key in homes(lab, other)]
        elif isinstance(nic.backend, MacvtapBackend):
            needs.append(f"macvtap:{port.ref}")
        elif isinstance(nic.backend, FunctionBackend):
            needs.append(f"function:{port.ref}")
        else:
            needs += place.home
    return Resource(
        key=f"vm:{name}",
        machine=name,
        kernel=kernel,
        needs=tuple(dict.fromkeys(needs)),
        actions=(StartGuest(guest),),
        expect=(
            Expectation(Reading(GuestState(name), GuestThreads("status")), "running", f"state of {name}"),
        ),
    )


def _cards(lab: Lab, topology: Topology, name: str, machine: Vm) -> Iterator[Resource]:
    """Give each card its port's name and bring it up; then what can be set while the guest runs."""
    ports = card_ports(lab, topology, name)
    aside = _named_crosswise(ports)
    needs = [f"ipv6:{name}"]
    if aside:
        needs.append(f"names:{name}")
        yield Resource(
            key=f"names:{name}",
            machine=name,
            kernel=name,
            needs=(f"ipv6:{name}",),
            actions=tuple(_rename(lab, port, f"card{number}") for number, port in enumerate(ports)),
        )
    asked = tunings(lab)
    for port in ports:
        yield _card(lab, port, machine, tuple(needs))
        if queue_pairs(machine) > 1:
            tuning = asked.get(port.ref)
            yield queues_resource(port, (tuning and tuning.queues) or machine.queues, f"card:{port.ref}")
        if machine.engine == "qemu" and not is_virtio(machine.nic):
            yield from _rings(port, machine)


def _named_crosswise(ports: list[Port]) -> bool:
    """Tell whether a port has the name that the kernel first gives to another card."""
    first = [f"eth{number}" for number in range(len(ports))]
    return any(port.name in first and port.name != own for port, own in zip(ports, first, strict=True))


def _rename(lab: Lab, port: Port, name: str, *more: str) -> Run:
    """Name a card; it is found by its address."""
    rename = ("ip", "link", "set", "dev", FOUND, "name", name, *more)
    find = Reading(Command(("ip", "-j", "-d", "addr", "show")), InterfaceByMac(mac_of(lab, port.ref) or ""))
    return Run(Command(rename), find=find)


def _card(lab: Lab, port: Port, machine: Vm, needs: tuple[str, ...]) -> Resource:
    driver = XEN_DRIVER if machine.engine == "xen" else DRIVERS[machine.nic]
    known = (
        machine.nic != "sr-iov" or lab.machines[machine.on or ""].kind == "vm"
    )  # else it is the card's own
    what = f"driver of {port.ref}"
    mac = mac_of(lab, port.ref) or ""
    return Resource(
        key=f"card:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        settle_ns=SETTLE_NS.get(machine.nic, 0) if machine.engine == "qemu" else 0,
        needs=(*needs, *(key for key in homes(lab, port) if key not in needs)),
        actions=(_rename(lab, port, port.name, "up"),),
        expect=(
            expect_interface(None, Interface(port.name, "mac"), mac, f"address of the card {port.ref}"),
            expect_interface(None, Interface(port.name, "carrier"), "up", f"carrier of {port.ref}"),
            *(
                [Expectation(Reading(Command(("ethtool", "-i", port.name)), Driver()), driver, what)]
                if known
                else []
            ),
        ),
    )


def _rings(port: Port, machine: Vm) -> Iterator[Resource]:
    """Give the ring sizes that were asked for; the card gets its own back when they are asked for no more."""
    asked: dict[Literal["rx", "tx"], int] = {}
    if machine.ring.rx is not None:
        asked["rx"] = machine.ring.rx
    if machine.ring.tx is not None:
        asked["tx"] = machine.ring.tx
    if not asked:
        return
    source = Command(("ethtool", "-g", port.name))
    words = tuple(word for side, size in asked.items() for word in (side, str(size)))
    change = ("ethtool", "-G", port.name)
    yield Resource(
        key=f"ring:{port.ref}:{'+'.join(asked)}",
        machine=port.machine,
        kernel=port.kernel,
        needs=(f"card:{port.ref}",),
        actions=(
            Run(
                Command((*change, *words)),
                Command((*change, ORIGINAL)),
                Reading(source, HardwareSettings(tuple(asked))),
            ),
        ),
        expect=tuple(
            Expectation(
                Reading(source, HardwareSettings((side,))), f"{side} {size}", f"{side} ring of {port.ref}"
            )
            for side, size in asked.items()
        ),
        held=True,
    )
