"""Read back the settings in effect at the end of a measurement: stacks, ports and processors."""

from collections.abc import Iterator, Mapping, Sequence

from iolab.agent.answers import Reading
from iolab.lab.kernels import HERE
from iolab.lab.topology import Topology
from iolab.results.trial import STACK, Effect
from iolab.trial.counters.differences import ROOT
from iolab.trial.lab_access import Site

SAMPLERS = ("qdiscs", "processors", "settings")
"""Samplers to read."""
OF_PORTS = {"mtu": Effect.MTU, "offloads": Effect.OFFLOADS, "rings": Effect.RINGS}
LOCAL = "host"
"""Name of the local host if it is not a machine of the lab."""

InEffect = Mapping[str, Mapping[str, str]]
"""Settings by place."""


def read_in_effect(site: Site) -> InEffect:
    """Read the settings in effect on every kernel with a port of the lab. Raises AgentError."""
    agents = site.agents or {HERE: site.agent}
    places: dict[str, list[str | None]] = {}
    for port in site.topology.ports():
        own = places.setdefault(port.kernel, [])
        if port.netns not in own:
            own.append(port.netns)
    return in_effect(
        site.topology,
        {
            kernel: agents[kernel].read_samples(own, SAMPLERS)
            for kernel, own in places.items()
            if kernel in agents
        },
    )


def in_effect(topology: Topology, readings: Mapping[str, Reading]) -> InEffect:
    """Return the settings of a lab's machines and ports, from readings by kernel. Pure."""
    found: dict[str, dict[str, str]] = {}
    for port in topology.ports():
        reading = readings.get(port.kernel)
        if reading is None:
            continue
        stack = reading.setting(port.netns, "stack")
        if stack and port.ref.machine not in found:
            found[port.ref.machine] = {
                STACK[name].value: value for name, value in stack.items() if name in STACK
            }
        own = reading.setting(port.netns, "interface", port.name)
        here = {effect.value: own[name] for name, effect in OF_PORTS.items() if name in own}
        kinds = dict.fromkeys(_root_qdiscs(reading, port.netns, port.name))
        if here or kinds:
            found[str(port.ref)] = {**here, **({Effect.QDISC.value: " ".join(kinds)} if kinds else {})}
    for kernel, reading in readings.items():
        governors = dict.fromkeys(_governors(reading))
        if governors:
            found.setdefault(kernel or LOCAL, {})[Effect.GOVERNOR.value] = " ".join(governors)
    return {place: own for place, own in found.items() if own}


def _root_qdiscs(reading: Reading, netns: str | None, interface: str) -> Iterator[str]:
    for seen in reading.observations:
        if (seen.sampler, seen.netns) == ("qdiscs", netns):
            yield from (row.kind for row in seen.qdiscs if (row.interface, row.parent) == (interface, ROOT))


def _governors(reading: Reading) -> Iterator[str]:
    rows: Sequence[Mapping[str, str]] = [
        row.values for seen in reading.observations if seen.sampler == "processors" for row in seen.settings
    ]
    yield from (row["governor"] for row in rows if "governor" in row)
