"""Compose the resources of a lab in dependency order. Pure: nothing is executed, and no host is contacted.

Each resource names the kernel on which it is created: that of the local host, of a host reached through ssh, or of a
guest that an earlier resource starts.
"""

from collections.abc import Iterator, Mapping, Sequence

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Machine
from iolab.lab.actions import Expectation, Reading, Setting, Write
from iolab.lab.dependencies import for_new_interfaces, kernel_dependencies, place_of
from iolab.lab.endpoints import version_of
from iolab.lab.guests.resources import guest_resources, pin_resources
from iolab.lab.hosts.tuning import processor_resources, tuning_resources
from iolab.lab.kernels import kernel_of
from iolab.lab.links.bridges import netns_resource
from iolab.lab.links.resources import link_resources
from iolab.lab.links.shaping import shape_resources
from iolab.lab.packets.placement import Placement
from iolab.lab.packets.resources import device_resources, packet_resources, with_exact_wires
from iolab.lab.ports.addresses import neighbour_resources, route_resource
from iolab.lab.ports.resources import bridge_resources, port_resources
from iolab.lab.readback.values import Value
from iolab.lab.resources import Resource
from iolab.lab.services import standing_resources
from iolab.lab.topology import Topology, netns_of, topology_of
from iolab.lab.volumes.resources import volume_resources
from iolab.locale import Phrase

NONE_KNOWN: Mapping[str, int] = {}
NO_ORDER: Mapping[str, Sequence[int]] = {}


def compose(
    lab: Lab,
    *,
    placement: Placement | None = None,
    cpus: int | None = None,
    other_cpus: Mapping[str, int] = NONE_KNOWN,
    orders: Mapping[str, Sequence[int]] = NO_ORDER,
) -> tuple[Resource, ...]:
    """Return all resources of a lab, each after those that it needs; the result is equal for equal labs.

    With a placement, the result includes the resources for packet trials. `cpus` is the number of CPUs of the local
    host, `other_cpus` that of other hosts, for guests with `pin: auto`; `orders` has the CPUs of each host in the order
    of their assignment to guests.

    Raises:
        InputError: names or addresses conflict.
    """
    topology = topology_of(lab)
    resources = [*_machines(lab, topology), *_joins(lab, topology)]
    resources += guest_resources(lab, topology)
    resources += volume_resources(lab, topology)
    resources += tuning_resources(lab, topology, {resource.key for resource in resources})
    resources += processor_resources(lab)
    resources += pin_resources(lab, cpus, other_cpus, placement, orders)
    resources += device_resources(lab, topology, list(lab.links), placement)
    resources += standing_resources(lab, topology, tuple(resources))
    if placement is not None:
        resources += packet_resources(lab, topology, list(lab.links), placement)
    resources += neighbour_resources(lab, topology, packets=placement is not None)
    keys = [resource.key for resource in resources]
    if len(set(keys)) < len(keys):
        clash = next(key for key in keys if keys.count(key) > 1)
        allowed = Phrase("lab.unique-names")
        doing, seen = Phrase("lab.naming-parts-of-lab"), Phrase("lab.twice", name=clash)
        raise InputError([Problem("lab", doing, seen, allowed)])
    return ordered(with_exact_wires(resources, placement))


def ordered(resources: list[Resource]) -> tuple[Resource, ...]:
    """Return resources ordered so that each follows those that it needs; otherwise the order is unchanged."""
    waiting = {resource.key: resource for resource in resources}
    done: dict[str, Resource] = {}

    def place(resource: Resource) -> None:
        if resource.key in done:
            return
        for key in resource.needs:
            place(waiting[key])
        done[resource.key] = resource

    for resource in resources:
        place(resource)
    return tuple(done.values())


def _machines(lab: Lab, topology: Topology) -> Iterator[Resource]:
    for name, machine in lab.machines.items():
        netns, kernel = netns_of(lab, name), kernel_of(lab, name)
        if netns is not None:
            yield netns_resource(f"netns:{name}", name, netns, kernel, kernel_dependencies(lab, kernel))
        for setting, value in _settings(machine, _versions(topology, name)).items():
            yield _setting(lab, topology, name, setting, value, netns)


def _versions(topology: Topology, machine: str) -> set[int]:
    """Return the IP versions of a machine's addresses."""
    return {version_of(one.address) for point in topology.endpoints(machine) for one in point.each()}


def _settings(machine: Machine, versions: set[int]) -> Mapping[str, str]:
    """Return the sysctl settings of a machine.

    Forwarding is always set, because a namespace inherits its parent's setting.
    """
    if machine.kind == "host" and machine.forward != "route":
        return machine.settings
    passes = "1" if machine.forward == "route" else "0"
    names = (IP_FORWARD, IPV6_FORWARD) if 6 in versions else (IP_FORWARD,)
    return dict.fromkeys(names, passes) | dict(machine.settings)


def _setting(
    lab: Lab, topology: Topology, machine: str, name: str, value: str, netns: str | None
) -> Resource:
    path = setting_path(name)
    kernel = kernel_of(lab, machine)
    own = (port for port in topology.ports() if port.machine == machine)
    places = [place_of(lab, port) for port in own if port.interface in path.split("/")]
    what = f"{name} of {machine}"
    return Resource(
        key=f"setting:{machine}:{name}",
        machine=machine,
        kernel=kernel,
        needs=((f"netns:{machine}",) if netns else kernel_dependencies(lab, kernel)) + tuple(places),
        actions=(Write(path, netns, value),),
        expect=(Expectation(Reading(Setting(path, netns), Value()), " ".join(value.split()), what),),
        held=not for_new_interfaces(name),
    )


def setting_path(name: str) -> str:
    """Return the file of a sysctl; as in sysctl(8), "/" in a name stands for a dot in a component: eth0/100.

    Raises:
        InputError: the name stands for a file outside /proc/sys.
    """
    parts = [part.replace("/", ".") for part in name.split(".")]
    if any(part in ("", ".", "..") for part in parts):
        allowed = Phrase("lab.name-of-sysctl")
        raise InputError(
            [Problem("lab.machines", Phrase("lab.reading-name-of-setting"), repr(name), allowed)]
        )
    return "/proc/sys/" + "/".join(parts)


def _joins(lab: Lab, topology: Topology) -> Iterator[Resource]:
    """Yield the resources between machines: links, their ports, bridges and routes."""
    links = list(lab.links)
    for name in links:
        yield from link_resources(lab, topology, name)
        yield from port_resources(lab, topology, name)
    yield from bridge_resources(lab, topology, links)
    for name in links:
        yield from shape_resources(lab, topology, name)
    for route in topology.routes():
        yield route_resource(route)


IP_FORWARD = "net.ipv4.ip_forward"
"""Setting that enables IPv4 forwarding (ip-sysctl)."""
IPV6_FORWARD = "net.ipv6.conf.all.forwarding"
"""Setting that enables IPv6 forwarding."""
