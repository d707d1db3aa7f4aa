"""Determine the kernel of each machine of a lab, and the hierarchy of kernels. Pure."""

from collections.abc import Iterable, Mapping

from iolab.experiment.experiment import Lab, answered_once
from iolab.experiment.model.machines import Machine
from iolab.locale import Phrase

HERE = ""
"""The kernel of the local host."""


def has_kernel(machine: Machine) -> bool:
    """Whether a machine has its own kernel, and thus its own agent."""
    return machine.kind == "vm" or (machine.kind == "host" and machine.ssh is not None)


@answered_once
def kernel_of(lab: Lab, machine: str) -> str:
    """Return the machine whose kernel has this machine's interfaces; `HERE` for the local host."""
    found = lab.machines[machine]
    if has_kernel(found):
        return machine
    return HERE if found.on is None else kernel_of(lab, found.on)


@answered_once
def parent_kernel(lab: Lab, machine: str) -> str:
    """Return the kernel on which a virtual machine is started; `HERE` for the local host."""
    parent = lab.machines[machine].on
    return HERE if parent is None else kernel_of(lab, parent)


@answered_once
def kernels(lab: Lab) -> tuple[str, ...]:
    """Return all kernels of a lab, each after its parent; `HERE` first."""
    parents: Mapping[str, str] = {
        name: parent_kernel(lab, name) for name, machine in lab.machines.items() if has_kernel(machine)
    }
    ordered: dict[str, None] = {HERE: None}
    while len(ordered) <= len(parents):
        known = len(ordered)
        ordered |= {name: None for name, parent in parents.items() if parent in ordered}
        if len(ordered) == known:
            break  # circular parents, which the reference check reports
    return tuple(ordered)


def on_kernels(ends: Iterable[tuple[str, str]]) -> Phrase:
    """Return the ends with their kernels as text for messages."""
    here = Phrase("lab.this-computer")
    return Phrase(
        "errors.listed",
        items=[Phrase("lab.on-kernel", end=end, kernel=kernel or here) for end, kernel in ends],
    )
