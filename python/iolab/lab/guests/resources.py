"""Virtual machines as resources: the guest on its parent's kernel, then its NICs on its own kernel.

`Guest` has the start parameters; a guest with other start parameters is a different guest. Settings that can change
while the guest runs (CPU pinning, active queues, rings of emulated NICs) are separate resources.
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
"""The kernel's name of the Xen network frontend driver."""


def guest_resources(lab: Lab, topology: Topology) -> Iterator[Resource]:
    """Return the resources of all guests of a lab and of their NICs.

    Raises:
        InputError: the parameters of a guest are invalid.
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
    """Yield the resources that name a guest's NICs after their ports, bring them up, and set their options."""
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
    """Whether a port has the name that the kernel initially gives to a different NIC."""
    first = [f"eth{number}" for number in range(len(ports))]
    return any(port.name in first and port.name != own for port, own in zip(ports, first, strict=True))


def _rename(lab: Lab, port: Port, name: str, *more: str) -> Run:
    """Return the action that renames a NIC, which is identified by its MAC address."""
    rename = ("ip", "link", "set", "dev", FOUND, "name", name, *more)
    find = Reading(Command(("ip", "-j", "-d", "addr", "show")), InterfaceByMac(mac_of(lab, port.ref) or ""))
    return Run(Command(rename), find=find)


def _card(lab: Lab, port: Port, machine: Vm, needs: tuple[str, ...]) -> Resource:
    driver = XEN_DRIVER if machine.engine == "xen" else NICS[machine.nic].driver
    # Otherwise the NIC already has the correct name.
    known = machine.nic != "sr-iov" or lab.machines[machine.on or ""].kind == "vm"
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
    """Yield the resource that sets ring sizes; its undo restores the original sizes."""
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
    """Return the resources that pin the threads of all guests.

    A guest without pinning gets all CPUs, because an earlier level may have pinned the guest.

    `cpus` is the number of CPUs of the local host, `others` that of other hosts; None or missing: unknown, and `pin:
    auto` then means any CPU. `orders` has the CPUs of each kernel, those near its NICs first; the CPUs of a kernel that
    is not listed are in numerical order.
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
    """Return the number of CPUs of a kernel from `here` (local host) and `others` (other hosts); None: unknown."""
    if kernel == HERE:
        return here
    machine = lab.machines[kernel]
    return machine.cpus if isinstance(machine, Vm) else others.get(kernel)


def _free(cpus: Sequence[int], placement: Placement | None) -> list[int]:
    """Return the CPUs for guests: those of generator and receiver and CPU 0 are excluded, if other CPUs remain."""
    senders = set(placement.senders.values()) if placement else set()
    receivers = set(placement.receivers.values()) if placement else set()
    for kept in (senders | receivers | {0}, senders | receivers, senders, set()):
        if left := [cpu for cpu in cpus if cpu not in kept]:
            return left
    return []


def _chosen(machine: Vm, free: list[int], taken: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the CPU of each virtual CPU, and the CPUs of the threads that carry frames."""
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
