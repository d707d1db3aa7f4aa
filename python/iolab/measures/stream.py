"""Streams: TCP and UDP between machines, with iperf3."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Section
from iolab.experiment.model.measures import Stream
from iolab.experiment.model.quantities import PortRef
from iolab.experiment.references.view import Place, View, check_machine, check_pair
from iolab.lab.links.shared import check_reach
from iolab.lab.packets.placement import stream_way
from iolab.lab.programs import on_cpus
from iolab.lab.topology import Topology
from iolab.locale import Phrase
from iolab.registry.rows import Later, MeasureKind, ShortForm

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab

PORTS_OF_A_PART = 200
"""Number of ports reserved for each of several parallel streams."""
MOST_DATAGRAM = 65_507
"""Maximum UDP payload over IPv4 [bytes]."""


def _check_names(view: View, section: Section, measure: Stream) -> None:
    if measure.protocol == "udp" and (measure.length or 0) > MOST_DATAGRAM:
        seen = Phrase("measures.bytes-over-udp", size=measure.length)
        allowed = Phrase("measures.at-most", most=MOST_DATAGRAM)
        view.say(section, ("length",), seen, allowed)
    if measure.protocol == "udp" and measure.congestion is not None:
        seen = Phrase("measures.key-over-udp", key="congestion")
        allowed = Phrase("measures.key-over-tcp", key="congestion")
        view.say(section, ("congestion",), seen, allowed)
    if measure.on is not None:
        check_machine(view, section, ("on",), measure.on)
    if measure.flows:
        _check_flows(view, section, measure)
        return
    source = measure.src or measure.on
    if source is None or measure.dst is None:
        missing = [key for key, end in (("from", source), ("to", measure.dst)) if end is None]
        allowed, advice = Phrase("measures.ends-or-flows"), Phrase("measures.add-keys", keys=missing)
        view.say(section, (), Phrase("measures.keys-absent", keys=missing), allowed, advice)
        return
    _check_ends(view, section, (), "from" if measure.src is not None else "on", source, measure.dst)


def _check_flows(view: View, section: Section, measure: Stream) -> None:
    if measure.src is not None or measure.dst is not None:
        key = "from" if measure.src is not None else "to"
        seen, allowed = Phrase("measures.both-keys", keys=["flows", key]), Phrase("measures.flows-or-ends")
        view.say(section, (key,), seen, allowed)
    for index, flow in enumerate(measure.flows):
        _check_ends(view, section, ("flows", index), "from", flow.src, flow.dst)


def _check_ends(view: View, section: Section, place: Place, key: str, source: str, target: str) -> None:
    """Report problems of a sender and a receiver; a host may be both, over its loopback interface."""
    machine = view.lab.machines.get(source)
    if source != target or machine is None or machine.kind != "host":
        check_pair(view, section, place, key, source, target)


def _ends(measure: Stream) -> Iterator[tuple[str, str]]:
    for flow in measure.flows:
        yield flow.src, flow.dst
    source = measure.src or measure.on
    if source is not None and measure.dst is not None:
        yield source, measure.dst


def _kernels(measure: Stream, topology: Topology) -> Iterator[str]:
    for source, target in _ends(measure):
        yield topology.endpoint(source, towards=target, ip=measure.ip).kernel
        yield topology.endpoint(target, towards=source, ip=measure.ip).kernel


def _features(measure: Stream) -> Iterator[str]:
    if measure.protocol == "tcp" and measure.congestion is not None:
        yield f"congestion:{measure.congestion}"


def _check(measure: Stream, lab: "Lab", topology: Topology) -> None:
    """Check that the ends of each flow are connected. Raises InputError."""
    for source, target in _ends(measure):
        topology.endpoint(source, towards=target, ip=measure.ip)
        topology.endpoint(target, towards=source, ip=measure.ip)
        check_reach(lab, PortRef(source).machine, PortRef(target).machine)
        _check_forwarding(lab, topology, measure, source, target)


def _check_forwarding(lab: "Lab", topology: Topology, measure: Stream, source: str, target: str) -> None:
    """Check that no machine on the path forwards with XDP.

    A stack leaves checksums and segmentation to its NIC. On a veth pair, the receiving stack trusts unfinished frames,
    but a frame that XDP forwards from there is sent with an incomplete checksum and without segmentation.

    Raises:
        InputError: a machine on the path forwards with XDP.
    """
    ways = ((source, target), (target, source))
    here, there = (topology.endpoint(one, towards=other, ip=measure.ip) for one, other in ways)
    for name in {
        PortRef(port).machine for hop in stream_way(lab, topology, here, there).hops for port in hop
    }:
        if lab.machines[name].forward == "xdp":
            seen = Phrase("measures.xdp-on-path-of-stream", source=source, target=target)
            allowed = Phrase("measures.forward-bridge-or-route")
            advice = Phrase("measures.xdp-forwards-own-frames")
            where = f"lab.machines.{name}.forward"
            raise InputError([Problem(where, Phrase("measures.forwarding-a-stream"), seen, allowed, advice)])


def _commands(measure: Stream, topology: Topology) -> Sequence[str]:
    from iolab.lab.actions import Command
    from iolab.plan.commands import prompted
    from iolab.trial.streams.iperf3 import client_argv, place_pairs, server_argv

    lines = []
    for pair in place_pairs(measure, topology):
        served = on_cpus(server_argv(pair, measure), pair.server.cpus)
        sent = on_cpus(client_argv(pair, measure), pair.client.cpus)
        lines.append(prompted(Command(served, pair.server.netns), pair.server.kernel) + " &")
        lines.append(prompted(Command(sent, pair.client.netns), pair.client.kernel))
    return lines


def _as_part(measure: Stream, number: int) -> Stream:
    from iolab.trial.streams.iperf3 import FIRST_TCP_PORT

    if measure.port is not None:
        return measure
    return measure.model_copy(update={"port": FIRST_TCP_PORT + number * PORTS_OF_A_PART})


STREAM = MeasureKind(
    model=Stream,
    duration_ns=lambda measure: measure.duration + measure.warm_up,
    measure=Later("iolab.trial.streams.measure:measure_stream"),
    conclude=Later("iolab.trial.streams.measure:conclude_stream"),
    check_names=_check_names,
    named_by=frozenset({"from", "to", "on", "flows"}),
    programs={"iperf3": "iperf3"},
    kernels=_kernels,
    features=_features,
    check=_check,
    as_part=_as_part,
    joined_by=lambda measure: (
        measure.src,
        measure.dst,
        measure.on,
        measure.flows,
        measure.congestion,
        measure.ip,
    ),
    commands=_commands,
    leading=("received_bps",),
    short_forms={
        "tcp": ShortForm({"protocol": "tcp", "duration": "2s"}),
        "udp": ShortForm({"protocol": "udp", "duration": "2s"}),
    },
)
