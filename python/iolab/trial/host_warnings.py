"""What must be known of a lab's computers to read any figure of a trial. Pure."""

from collections.abc import Mapping

from iolab.experiment.experiment import Lab
from iolab.experiment.port_ref import PortRef
from iolab.lab.hosts.facts import Facts
from iolab.lab.hosts.readiness import cards_of, concerns
from iolab.lab.kernels import kernel_of
from iolab.lab.packets.placement import Placement
from iolab.statements.computers import computer
from iolab.statements.concerns import Concern, GovernorChanges, TurboOn
from iolab.statements.warnings import HostUnready


def host_warnings(
    lab: Lab, known: Mapping[str, Facts], placement: Placement | None = None
) -> tuple[HostUnready, ...]:
    """Return a warning for each computer of a lab that is not ready, by what is known of it.

    What the lab sets itself is no concern.
    """
    kernels = dict.fromkeys(kernel_of(lab, name) for name in lab.machines)
    found = (_warning(lab, kernel, known[kernel], placement) for kernel in kernels if kernel in known)
    return tuple(one for one in found if one is not None)


def _warning(lab: Lab, kernel: str, facts: Facts, placement: Placement | None) -> HostUnready | None:
    measuring = placement is not None and any(
        kernel_of(lab, PortRef(port).machine) == kernel for port in placement.senders
    )
    cpus = {*placement.senders.values(), *placement.receivers.values()} if placement and measuring else set()
    set_here = _set_by_the_lab(lab, kernel)
    every = concerns(facts, cards_of(lab, kernel), cpus)
    seen = tuple(one for one in every if not isinstance(one, set_here))
    if not seen:
        return None
    return HostUnready(host=computer(kernel), concerns=seen)


def _set_by_the_lab(lab: Lab, kernel: str) -> tuple[type[Concern], ...]:
    """Return the concerns that a level decides, on a computer."""
    found: set[type[Concern]] = set()
    for name, machine in lab.machines.items():
        if machine.kind != "host" or kernel_of(lab, name) != kernel:
            continue
        found |= {GovernorChanges} if machine.processors.governor is not None else set()
        found |= {TurboOn} if machine.processors.turbo is not None else set()
    return tuple(found)
