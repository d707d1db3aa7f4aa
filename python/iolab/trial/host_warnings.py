"""What must be known of a lab's computers to read any figure of a trial. Pure."""

from collections.abc import Mapping

from iolab.experiment.experiment import Lab
from iolab.experiment.port_ref import PortRef
from iolab.lab.hosts.facts import Facts
from iolab.lab.hosts.readiness import cards_of, concerns
from iolab.lab.kernels import HERE, kernel_of
from iolab.lab.packets.placement import Placement
from iolab.record.trial import Warning


def host_warnings(
    lab: Lab, known: Mapping[str, Facts], placement: Placement | None = None
) -> tuple[Warning, ...]:
    """Return a warning for each computer of a lab that is not ready, by what is known of it.

    What the lab sets itself is no concern.
    """
    kernels = dict.fromkeys(kernel_of(lab, name) for name in lab.machines)
    found = (_warning(lab, kernel, known[kernel], placement) for kernel in kernels if kernel in known)
    return tuple(one for one in found if one is not None)


def _warning(lab: Lab, kernel: str, facts: Facts, placement: Placement | None) -> Warning | None:
    measuring = placement is not None and any(
        kernel_of(lab, PortRef(port).machine) == kernel for port in placement.senders
    )
    cpus = {*placement.senders.values(), *placement.receivers.values()} if placement and measuring else set()
    set_here = _set_by_the_lab(lab, kernel)
    seen = [one for one in concerns(facts, cards_of(lab, kernel), cpus) if one.subject not in set_here]
    if not seen:
        return None
    host = kernel if kernel != HERE else "this computer"
    return Warning(
        "host-unready",
        f"{host}: {'; '.join(one.seen for one in seen)}",
        "; ".join(dict.fromkeys(one.advice for one in seen)),
    )


def _set_by_the_lab(lab: Lab, kernel: str) -> set[str]:
    """Return the subjects that a level decides, on a computer."""
    found: set[str] = set()
    for name, machine in lab.machines.items():
        if machine.kind != "host" or kernel_of(lab, name) != kernel:
            continue
        found |= {"CPU frequency"} if machine.processors.governor is not None else set()
        found |= {"turbo"} if machine.processors.turbo is not None else set()
    return found
