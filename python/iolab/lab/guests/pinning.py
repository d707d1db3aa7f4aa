"""On which CPUs of its parent each guest runs: decided here, changed while it runs. Pure: nothing is pinned."""

from collections.abc import Iterator, Mapping, Sequence

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Vm
from iolab.experiment.model.quantities import PortRef
from iolab.lab.actions import PinGuest
from iolab.lab.kernels import HERE, kernel_of, parent_kernel
from iolab.lab.packets.placement import Placement
from iolab.lab.readback.values import GuestThreads
from iolab.lab.readings import Expectation, GuestState, Reading
from iolab.lab.resources import Resource


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
