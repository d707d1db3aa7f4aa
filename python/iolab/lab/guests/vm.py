"""Derive the parameters of a guest from a vm of the lab: its image, CPUs, NICs, and the parent's backends. Pure.

The module `resources` creates the guest.
"""

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Vm
from iolab.lab.dependencies import ports_of, side_of
from iolab.lab.guests.guest import (
    Backend,
    FunctionBackend,
    Guest,
    GuestNic,
    MacvtapBackend,
    TapBackend,
    VhostUserBackend,
)
from iolab.lab.kernels import HERE, parent_kernel
from iolab.lab.links.link_topology import Join, functions_of, is_card, join_of, mac_of, uplinks
from iolab.lab.topology import Port, Topology
from iolab.lab.volumes.resources import guest_disks, hypervisor_netns
from iolab.locale import Phrase
from iolab.registry.images import image_name
from iolab.registry.nics import NICS

MOST_QUEUES = 16
"""Maximum number of queue pairs of a NIC without an explicit request for more."""


def guest_of(lab: Lab, topology: Topology, name: str) -> Guest:
    """Return the start parameters of a guest.

    Raises:
        InputError: the parameters are invalid.
    """
    machine = lab.machines[name]
    assert isinstance(machine, Vm)
    virtio = machine.engine == "qemu" and NICS[machine.nic].is_virtio
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
                backend=_backend(lab, topology, port, machine),
                queues=queue_pairs(machine),
                rx_ring=machine.ring.rx if virtio else None,
                tx_ring=machine.ring.tx if virtio else None,
            )
            for port in card_ports(lab, topology, name)
        ),
        disks=guest_disks(lab, topology, name),
        netns=hypervisor_netns(lab, topology, name),
        domains_bytes=sum(one.memory for one in domains_of(lab, name).values()),
        domains_cpus=sum(one.cpus for one in domains_of(lab, name).values()),
        own_cpus=_own_cpus(lab, name, machine),
    )


def domains_of(lab: Lab, name: str) -> dict[str, Vm]:
    """Return the Xen domains whose Dom0 is this machine."""
    found = {child: one for child, one in lab.machines.items() if isinstance(one, Vm) and one.engine == "xen"}
    return {child: one for child, one in found.items() if one.on == name}


def _own_cpus(lab: Lab, name: str, machine: Vm) -> tuple[int, ...]:
    """Return the CPUs of a domain on a guest of the lab, after those of Dom0 and of earlier domains."""
    parent = None if machine.on is None else lab.machines[machine.on]
    if machine.engine != "xen" or machine.on is None or not isinstance(parent, Vm):
        return ()
    siblings = domains_of(lab, machine.on)
    before = list(siblings)[: list(siblings).index(name)]
    first = parent.cpus + sum(siblings[one].cpus for one in before)
    return tuple(range(first, first + machine.cpus))


def image_of(lab: Lab, name: str) -> str:
    """Return the name of a guest's image: as configured, or the smallest image that supports the guest's children.

    A nested guest uses the image of its parent: nothing is copied into a guest.
    """
    machine = lab.machines[name]
    assert isinstance(machine, Vm)
    return image_name(_flavour(lab, name, machine), machine.install)


def _flavour(lab: Lab, name: str, machine: Vm) -> str:
    if machine.image is not None:
        return machine.image
    parent = parent_kernel(lab, name)
    if parent != HERE and lab.machines[parent].kind == "vm":
        return image_of(lab, parent)
    engines = {one.engine for one in lab.machines.values() if isinstance(one, Vm) and one.on == name}
    return "xen" if "xen" in engines else "nested" if engines else "linux"


def card_ports(lab: Lab, topology: Topology, name: str) -> list[Port]:
    """Return the ports of a guest that are its NICs, in the order of the links."""
    return [
        port
        for link in lab.links
        for port in ports_of(lab, topology, link)
        if port.machine == name and is_card(lab, port.ref)
    ]


def queue_pairs(machine: Vm) -> int:
    """Return the number of queue pairs of a NIC at its start.

    A virtio NIC gets one queue pair per CPU, so that a guest can change the number of active queues without a restart;
    a switch sends to all queues.
    """
    if machine.engine == "xen" or not NICS[machine.nic].is_virtio:
        return 1
    if machine.nic == "vhost-user":
        return machine.queues
    return max(machine.queues, min(machine.cpus, MOST_QUEUES))


def _backend(lab: Lab, topology: Topology, port: Port, machine: Vm) -> Backend:
    vhost = NICS[machine.nic].vhost
    join = join_of(lab, port.link)
    if join is Join.CABLE:
        allowed = Phrase("lab.cable-between-hosts")
        advice = Phrase("lab.join-guest-to-parent")
        seen = Phrase("lab.card-of-guest", port=port.ref)
        raise InputError(
            [Problem(f"lab.links.{port.link}.cable", Phrase("lab.joining-ports"), seen, allowed, advice)]
        )
    if join is Join.FUNCTIONS:
        (uplink,) = uplinks(lab, port.link)
        return FunctionBackend(uplink.port, functions_of(lab, uplink).index(port.ref))
    side = side_of(lab, topology, port)
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
