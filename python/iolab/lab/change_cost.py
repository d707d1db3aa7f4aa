"""What it costs to change a factor's level: which changes make a whole plot, and how long they take."""

from collections import Counter

from iolab.experiment.experiment import Factor, Lab
from iolab.experiment.model.machines import Vm

PLOT_CHANGE_NS = 420_000_000
"""A whole lab taken down and made again [ns]: three namespaces on a bridge, median of 10 on 2 busy vCPU."""
LAB_CHANGE_NS = 30_000_000
"""Links changed in place [ns]: 8 ms for offloads of three ports, 29 ms for the MTU of six, measured likewise."""


GUEST_START_NS = 2_500_000_000
"""An emulated guest until its agent answers [ns]: median of 8 on 2 vCPU."""
MORE_GUESTS_NS = 1_100_000_000
"""Each further one that starts at the same time [ns]: two took 3.1 s, four 5.9 s on 2 vCPU."""
XEN_HOST_NS = 5_000_000_000
"""What Xen and its tools add to the start of an emulated guest [ns]: 6 to 9 s in all."""
NESTED_START_NS = 9_000_000_000
"""A guest on a guest [ns]: 9 s with the emulated CPU's own virtualisation, 4 s as a Xen domain and then its agent."""
HOT = frozenset({"settings", "pin", "pin_io", "queues", "host", "processors"})
"""What of a machine is changed while it runs."""


def expensive(path: str) -> bool:
    """Tell whether setting a dotted path makes a machine or a volume again, or starts a guest with other cards."""
    parts = path.split(".")
    if parts[0] == "links":
        return parts[2:3] == ["ends"]
    return parts[0] in ("machines", "volumes") and HOT.isdisjoint(parts[2:3])


def start_ns(lab: Lab) -> int:
    """Return how long the guests of a lab take to start [ns]: those on one level of the tree start together."""
    levels = Counter(_depth(lab, name) for name, machine in lab.machines.items() if isinstance(machine, Vm))
    took_ns = 0
    for depth, count in levels.items():
        took_ns += GUEST_START_NS if depth == 1 else NESTED_START_NS
        took_ns += MORE_GUESTS_NS * (count - 1)
    xen = any(isinstance(machine, Vm) and machine.engine == "xen" for machine in lab.machines.values())
    return took_ns + (XEN_HOST_NS if xen else 0)


def _depth(lab: Lab, name: str) -> int:
    """Return how many guests deep a guest is."""
    machine = lab.machines[name]
    above = 0 if machine.on is None else _depth(lab, machine.on)
    return above + 1 if isinstance(machine, Vm) else above


def grouping(factors: tuple[Factor, ...]) -> tuple[str, ...]:
    """Return the names of factors, sub-factors included, that are expensive to change, in order of appearance."""
    found: dict[str, None] = {}
    for factor in factors:
        if any(expensive(path) for level in factor.levels for path in level.sets):
            found[factor.name] = None
        for level in factor.levels:
            found.update(dict.fromkeys(grouping(level.factors)))
    return tuple(found)
