"""Virtual machines as resources: the guest itself on its parent's kernel, then its cards on its own.

What a guest is started with is in `Guest`, and a change of it is another guest; what can be changed while it runs
(where its threads run, active queues, rings of emulated cards) are resources of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Vm
from iolab.experiment.model.quantities import PortRef
from iolab.lab.actions import (
    FOUND,
    ORIGINAL,
    Command,
    Expectation,
    GuestState,
    PinGuest,
    Reading,
    Run,
    StartGuest,
)
from iolab.lab.dependencies import kernel_dependencies, place_of_link, port_dependencies, ports_of
from iolab.lab.guests.guest import FunctionBackend, MacvtapBackend
from iolab.lab.guests.vm import card_ports, guest_of, queue_pairs
from iolab.lab.hosts.tuning import queues_resource, tunings
from iolab.lab.kernels import HERE, kernel_of, parent_kernel
from iolab.lab.links.bridges import expect_interface, without_ipv6
from iolab.lab.links.link_topology import Join, join_of, mac_of
from iolab.lab.packets.placement import Placement
from iolab.lab.readback.values import Driver, GuestThreads, HardwareSettings, Interface, InterfaceByMac
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.lab.volumes.resources import volume_keys
from iolab.registry.nics import NICS

XEN_DRIVER = "vif"
"""What the kernel calls the driver of a Xen network frontend."""


def guest_resources(lab: Lab, topology: Topology) -> Iterator[Resource]:
    """Return every guest of a lab, and its cards.

    Raises:
        InputError: a guest cannot be as it is described.
    """
    for name, machine in lab.machines.items():
        if isinstance(machine, Vm):
            yield _guest(lab, topology, name)
            yield Resource(
                key=f"ipv6:{name}",
                machine=name,
                kernel=name,
                needs=(f"vm:{name}",),
                actions=without_ipv6(None),
            )
            yield from _cards(lab, topology, name, machine)


def _guest(lab: Lab, topology: Topology, name: str) -> Resource:
    guest = guest_of(lab, topology, name)
    kernel = parent_kernel(lab, name)
    needs: list[str] = [*kernel_dependencies(lab, kernel), *volume_keys(lab, topology, name)]
    for port in card_ports(lab, topology, name):
        place = place_of_link(lab, topology, port.link)
        nic = next(nic for nic in guest.nics if nic.name == port.name)
        if join_of(lab, port.link) is Join.TAP:
            others = (one for one in ports_of(lab, topology, port.link) if one.ref != port.ref)
            needs += [key for other in others for key in port_dependencies(lab, other)]
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
        actions=(StartGuest(guest, nested=bool(kernel) and lab.machines[kernel].kind == "vm"),),
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
        if machine.engine == "qemu" and not NICS[machine.nic].is_virtio:
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
    driver = XEN_DRIVER if machine.engine == "xen" else NICS[machine.nic].driver
    known = (
        machine.nic != "sr-iov" or lab.machines[machine.on or ""].kind == "vm"
    )  # else it is the card's own
    what = f"driver of {port.ref}"
    mac = mac_of(lab, port.ref) or ""
    return Resource(
        key=f"card:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        settle_ns=NICS[machine.nic].settle_ns if machine.engine == "qemu" else 0,
        needs=(*needs, *(key for key in port_dependencies(lab, port) if key not in needs)),
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


def pin_resources(
    lab: Lab,
    cpus: int | None,
    others: Mapping[str, int],
    placement: Placement | None,
    orders: Mapping[str, Sequence[int]],
) -> Iterator[Resource]:
    """Return where every guest's threads run; one that may run anywhere has every CPU, for a level may say so.

    `cpus` is how many this computer has, `others` how many other hosts have; None, or no word: not known, and
    `pin: auto` there means any. `orders` has the CPUs of kernels, those near their cards first; absent: by number.
    """
    measuring = {kernel_of(lab, PortRef(port).machine) for port in placement.senders} if placement else set()
    taken: dict[str, int] = {}
    for name, machine in lab.machines.items():
        if not isinstance(machine, Vm):
            continue
        kernel = parent_kernel(lab, name)
        known = orders.get(kernel) or range(cpus_of(lab, kernel, cpus, others) or 0)
        free = _free(known, placement if kernel in measuring else None)
        vcpus, carriers = _chosen(machine, free, taken.get(kernel, 0))
        if machine.pin == "auto":
            taken[kernel] = taken.get(kernel, 0) + machine.cpus
        yield Resource(
            key=f"pin:{name}",
            machine=name,
            kernel=kernel,
            needs=(f"vm:{name}",),
            actions=(PinGuest(name, vcpus, carriers),),
            expect=tuple(_expected(name, vcpus, carriers)),
            held=True,
        )


def cpus_of(lab: Lab, kernel: str, here: int | None, others: Mapping[str, int]) -> int | None:
    """Return how many CPUs a kernel has, where this computer has `here` and other hosts `others`; None: not known."""
    if kernel == HERE:
        return here
    machine = lab.machines[kernel]
    return machine.cpus if isinstance(machine, Vm) else others.get(kernel)


def _free(cpus: Sequence[int], placement: Placement | None) -> list[int]:
    """Return the CPUs that guests get: not those of generator and receiver, and not CPU 0, where others are left."""
    senders = set(placement.senders.values()) if placement else set()
    receivers = set(placement.receivers.values()) if placement else set()
    for kept in (senders | receivers | {0}, senders | receivers, senders, set()):
        if left := [cpu for cpu in cpus if cpu not in kept]:
            return left
    return []


def _chosen(machine: Vm, free: list[int], taken: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the CPU of each virtual CPU, and those of the threads that carry frames."""
    if machine.pin == "none" or (machine.pin == "auto" and not free):
        return (), machine.pin_io
    if machine.pin != "auto":
        return tuple(machine.pin[number % len(machine.pin)] for number in range(machine.cpus)), machine.pin_io
    vcpus = tuple(free[(taken + number) % len(free)] for number in range(machine.cpus))
    left = machine.pin_io or tuple(free[taken + machine.cpus :])
    return vcpus, left or tuple(sorted(set(vcpus)))


def _expected(name: str, vcpus: tuple[int, ...], carriers: tuple[int, ...]) -> Iterator[Expectation]:
    if vcpus:
        seen = " ".join(str(cpu) for cpu in vcpus)
        what = f"CPUs of the virtual CPUs of {name}"
        yield Expectation(Reading(GuestState(name), GuestThreads("vcpus")), seen, what)
    if carriers:
        seen = ",".join(str(cpu) for cpu in sorted(carriers))
        what = f"CPUs of the threads that carry frames of {name}"
        yield Expectation(Reading(GuestState(name), GuestThreads("carriers")), seen, what)
