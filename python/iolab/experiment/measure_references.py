"""Names by which measures refer to machines, ports and links of the lab."""

from collections.abc import Mapping
from dataclasses import replace

from iolab.errors import InputError
from iolab.experiment.experiment import Cell
from iolab.experiment.lab_view import Place, View, check_place
from iolab.experiment.measures import DiskMeasure, Forwarding, Latency, LoadCurve, Measure, Packets, Stream
from iolab.experiment.port_ref import PortRef
from iolab.experiment.resolve import Resolver
from iolab.experiment.sections import Section

MOST_DATAGRAM = 65_507
"""UDP payload over IPv4 [bytes]."""


def check_measure(view: View, resolver: Resolver, section: Section, cell: Cell) -> None:
    """Note every name in a measure that leads nowhere in this lab."""
    try:
        measure = resolver.model(section, cell)
        variant = resolver.variant(section, cell)
    except InputError:
        return
    assert isinstance(measure, Stream | Forwarding | LoadCurve | Latency | DiskMeasure)
    view = replace(view, data={**view.data, section: (variant.data, variant.line)})
    if isinstance(measure, Stream) and measure.protocol == "udp" and (measure.length or 0) > MOST_DATAGRAM:
        view.say(section, ("length",), f"{measure.length} bytes over UDP", f"at most {MOST_DATAGRAM}")
    for index, watch in enumerate(measure.watch):
        if watch.at not in view.lab.links and watch.at not in view.ports:
            place = (
                ("watch", index, "at")
                if isinstance(variant.data["watch"][index], Mapping)
                else ("watch", index)
            )
            view.add(
                section,
                place,
                watch.at,
                (*view.lab.links, *view.ports),
                "a link, or a machine.port that a link has",
            )
    _check_flows(view, section, measure)


def _check_flows(view: View, section: Section, measure: Measure) -> None:
    if isinstance(measure, DiskMeasure):
        if measure.on not in view.lab.machines:
            view.add(section, ("on",), measure.on, view.lab.machines, "a machine")
        return
    if isinstance(measure, Stream):
        if measure.on is not None and measure.on not in view.lab.machines:
            view.add(section, ("on",), measure.on, view.lab.machines, "a machine")
        if measure.flows:
            _check_many(view, section, measure)
            return
        if (measure.src is None and measure.on is None) or measure.dst is None:
            missing = (
                "from" if measure.dst is not None else "to" if measure.src or measure.on else "from and to"
            )
            view.say(
                section,
                (),
                f"no {missing}",
                "from (or on) and to, or flows, after every factor is applied",
                f"add {missing}",
            )
            return
    source = measure.src if measure.src is not None else getattr(measure, "on", None)
    _check_pair(view, section, (), "from" if measure.src is not None else "on", str(source), str(measure.dst))
    if isinstance(measure, Packets):
        for index, pair in enumerate(measure.pairs):
            _check_pair(view, section, ("pairs", index), "from", pair.src, pair.dst)


def _check_many(view: View, section: Section, measure: Stream) -> None:
    if measure.src is not None or measure.dst is not None:
        key = "from" if measure.src is not None else "to"
        view.say(section, (key,), f"both flows and {key}", "either flows, or from and to")
    for index, flow in enumerate(measure.flows):
        _check_pair(view, section, ("flows", index), "from", flow.src, flow.dst)


def _check_pair(view: View, section: Section, place: Place, key: str, source: str, target: str) -> None:
    if not all(
        [
            check_place(view, section, (*place, key), source),
            check_place(view, section, (*place, "to"), target),
        ]
    ):
        return
    for word, name in ((key, source), ("to", target)):
        if not PortRef(name).port and not any(port.machine == name for port in view.ports):
            view.say(
                section,
                (*place, word),
                f"'{name}', which no link reaches",
                "a machine with a port on some link",
            )
            return
    if source == target:
        view.say(section, (*place, "to"), f"'{target}' to itself", "two different machines or ports")
