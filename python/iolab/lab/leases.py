"""The resources of a kernel that a lab needs exclusively, by the names under which agents lease them. Pure.

Two labs may run on a host at the same time if they lease no resource in common: the names of everything that a lab
creates begin with the lab's own tag.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from string import ascii_lowercase

from iolab.experiment.experiment import TAG_LETTERS, Lab, answered_once
from iolab.experiment.model.machines import Host, Vm
from iolab.lab.actions import Action, PinGuest, PinNapi, StartDevice, TuneProcessors, Write
from iolab.lab.kernels import HERE, kernel_of, parent_kernel
from iolab.lab.packets.placement import Placement
from iolab.lab.resources import Resource
from iolab.lab.topology import LOOPBACK, Topology
from iolab.lab.volumes.exports import by_kernel, initiator_of
from iolab.lab.volumes.places import holder_of

WHOLE_HOST = "host"
"""Name that stands for all resources of a kernel."""
Lease = tuple[str, str]
"""A kernel, and the name of one of its resources."""
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9:.,+@-]")
LONGEST_NAME = 120


@answered_once
def tagged(lab: Lab, tag: str) -> Lab:
    """Return the lab with a tag: there is one object per tag, so that all callers share its caches."""
    return replace(lab, tag=tag)


def tag_of(digest: str) -> str:
    """Return five letters derived from a plan's digest."""
    number = int(sha256(digest.encode()).hexdigest(), 16)
    return "".join(ascii_lowercase[number // 26**place % 26] for place in range(TAG_LETTERS))


def leases_of(
    lab: Lab,
    topology: Topology,
    resources: Sequence[Resource],
    placement: Placement | None,
    alone: Iterable[Lease] = (),
) -> frozenset[Lease]:
    """Return the resources that a lab needs on each host; guests need none, because they end with the lab.

    `alone` has the resources that a measure needs exclusively.
    """
    found = {*_of_names(lab), *_of_hosts(lab, topology), *_of_volumes(lab), *alone}
    found |= {(home.kernel, f"cpu:{cpu}") for home in topology.homes.values() for cpu in home.cpus}
    xen = (one.on for one in lab.machines.values() if isinstance(one, Vm) and one.engine == "xen")
    found |= {(kernel_of(lab, parent), "xen") for parent in xen if parent is not None}
    found |= {
        (resource.kernel, name)
        for resource in resources
        for action in resource.actions
        for name in _of_action(action)
    }
    if placement is not None:
        kernels: dict[str, str] = {port.ref: port.kernel for port in topology.ports()}
        found |= {(kernels[port], f"cpu:{cpu}") for port, cpu in placement.cpus() if port in kernels}
    hosts = {HERE, *(name for name, machine in lab.machines.items() if isinstance(machine, Host))}
    return frozenset((kernel, _name(resource)) for kernel, resource in found if kernel in hosts)


def _name(resource: str) -> str:
    """Return a resource's name in the form of a file name, which agents accept."""
    plain = NOT_IN_NAMES.sub("_", resource)
    if len(plain) <= LONGEST_NAME:
        return plain
    return f"{plain[:100]}.{sha256(resource.encode()).hexdigest()[:16]}"


def _of_names(lab: Lab) -> Iterator[Lease]:
    """Yield the names of namespaces, interfaces and files, on every kernel."""
    for kernel in {HERE, *(kernel_of(lab, name) for name in lab.machines)}:
        yield kernel, f"names:{lab.prefix}"


def _of_hosts(lab: Lab, topology: Topology) -> Iterator[Lease]:
    """Yield the ports, networks and settings that the lab changes on machines that are hosts."""
    for port in topology.ports():
        if port.netns is None and isinstance(lab.machines[port.machine], Host):
            yield port.kernel, f"port:{port.name}"
    for segment in topology.segments:
        for point in segment.endpoints:
            if isinstance(lab.machines[point.machine], Host):
                networks = (segment.network, segment.second)
                yield from ((point.kernel, f"network:{one}") for one in networks if one is not None)
    joined = {port.machine for port in topology.ports()}
    for name, machine in lab.machines.items():
        if isinstance(machine, Host):
            kernel = kernel_of(lab, name)
            if name not in joined:  # the host's programs use the ports of the loopback interface
                yield kernel, f"port:{LOOPBACK}"
            if any(change is not None for change in machine.run.values()):
                yield kernel, WHOLE_HOST  # it is unknown what these commands change


def _of_volumes(lab: Lab) -> Iterator[Lease]:
    """Yield the names of volumes, and the targets and initiators of which a kernel has only one."""
    for name, volume in lab.volumes.items():
        yield holder_of(lab, volume), f"volume:{name}"
        for owner, one in lab.machines.items():
            if any(disk.volume == name for disk in one.disks):
                yield kernel_of(lab, owner), f"volume:{name}"
        if volume.existing_target is not None and (machine := initiator_of(lab, name)) is not None:
            target = volume.existing_target
            yield _host_of(lab, machine), f"target:{target.host}:{target.port},{target.identity}"
        if volume.export is None:
            continue
        if volume.export == "nvme-tcp" or (volume.export == "iscsi" and by_kernel(lab, volume)):
            yield holder_of(lab, volume), f"{volume.export}-target"
        if (machine := initiator_of(lab, name)) is not None:
            yield kernel_of(lab, machine), f"{volume.export}-initiator"


def _host_of(lab: Lab, machine: str) -> str:
    """Return the kernel of the host on which a machine runs, directly or in guests."""
    kernel = kernel_of(lab, machine)
    while kernel != HERE and lab.machines[kernel].kind == "vm":
        kernel = parent_kernel(lab, kernel)
    return kernel


def _of_action(action: Action) -> Iterator[str]:
    match action:
        case PinGuest():
            yield from (f"cpu:{cpu}" for cpu in {*action.vcpus, *action.carriers})
        case PinNapi(cpu=int(cpu)) | StartDevice(cpu=int(cpu)):
            yield f"cpu:{cpu}"
        case TuneProcessors():
            yield "processors"
        case Write() if action.netns is None:
            yield f"setting:{action.path.removeprefix('/proc/sys/').replace('/', '.')}"
        case _:
            return
