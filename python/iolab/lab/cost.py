"""What it costs to change a factor's level: which changes make a whole plot, and how long they take."""

from iolab.experiment.experiment import Factor

PLOT_CHANGE_NS = 420_000_000
"""A whole lab taken down and made anew [ns]: three namespaces on a bridge, median of 10 on 2 busy vCPU."""
LAB_CHANGE_NS = 30_000_000
"""Links changed in place [ns]: 8 ms for offloads of three ports, 29 ms for the MTU of six, measured likewise."""


def expensive(path: str) -> bool:
    """Tell whether setting a dotted path makes a machine or a volume anew; a machine's kernel settings do not."""
    parts = path.split(".")
    return parts[0] in ("machines", "volumes") and parts[2:3] != ["settings"]


def grouping(factors: tuple[Factor, ...]) -> tuple[str, ...]:
    """Return the names of factors, sub-factors included, that are expensive to change, in order of appearance."""
    found: dict[str, None] = {}
    for factor in factors:
        if any(expensive(path) for level in factor.levels for path in level.sets):
            found[factor.name] = None
        for level in factor.levels:
            found.update(dict.fromkeys(grouping(level.factors)))
    return tuple(found)
