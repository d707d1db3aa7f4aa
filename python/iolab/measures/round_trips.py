"""Round trips: transactions over TCP and UDP, and echo requests over ICMP and UDP."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from iolab.experiment.experiment import Section
from iolab.experiment.model.measures import Ping, RequestResponse, RoundTrips
from iolab.experiment.model.quantities import PortRef
from iolab.experiment.references.view import View, check_pair
from iolab.lab.links.shared import check_reach
from iolab.lab.programs import on_cpus
from iolab.lab.topology import Topology
from iolab.locale import Phrase
from iolab.registry.rows import Later, MeasureKind, ShortForm

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab

LEAST_DATAGRAM, MOST_DATAGRAM = 24, 65_507
"""Limits of the UDP payload: it must hold the request number, and fit in a packet [bytes]."""
Trips = TypeVar("Trips", bound=RoundTrips)


def _check_names(view: View, section: Section, measure: RoundTrips) -> None:
    check_pair(view, section, (), "from", measure.src, measure.dst)


def _check_transactions(view: View, section: Section, measure: RequestResponse) -> None:
    _check_names(view, section, measure)
    if measure.protocol == "tcp":
        return
    if measure.connect_each:
        seen = Phrase("measures.key-over-udp", key="connect_each")
        allowed = Phrase("measures.key-over-tcp", key="connect_each")
        view.say(section, ("connect_each",), seen, allowed)
    for key, size in (("request", measure.request), ("response", measure.response)):
        if not LEAST_DATAGRAM <= size <= MOST_DATAGRAM:
            allowed = Phrase("measures.size-over-udp", least=LEAST_DATAGRAM, most=MOST_DATAGRAM)
            view.say(section, (key,), Phrase("measures.bytes-over-udp", size=size), allowed)


def _kernels(measure: RoundTrips, topology: Topology) -> Iterator[str]:
    yield topology.endpoint(measure.src, towards=measure.dst, ip=measure.ip).kernel
    yield topology.endpoint(measure.dst, towards=measure.src, ip=measure.ip).kernel


def _check(measure: RoundTrips, lab: "Lab", topology: Topology) -> None:
    """Check that both ends are connected. Raises InputError."""
    topology.endpoint(measure.src, towards=measure.dst, ip=measure.ip)
    topology.endpoint(measure.dst, towards=measure.src, ip=measure.ip)
    check_reach(lab, PortRef(measure.src).machine, PortRef(measure.dst).machine)


def _commands(measure: RoundTrips, topology: Topology) -> Sequence[str]:
    from iolab.lab.actions import Command
    from iolab.plan.commands import prompted
    from iolab.trial.round_trips.requests import requests_of

    asking = topology.endpoint(measure.src, towards=measure.dst, ip=measure.ip)
    answering = topology.endpoint(measure.dst, towards=measure.src, ip=measure.ip)
    serve, ask = requests_of(measure, asking, answering)
    lines = []
    if serve is not None:
        argv = on_cpus(("iolab-agent", "roundtrip", serve), answering.cpus)
        lines.append(prompted(Command(argv, answering.netns), answering.kernel) + " &")
    argv = on_cpus(("iolab-agent", "roundtrip", ask), asking.cpus)
    return (*lines, prompted(Command(argv, asking.netns), asking.kernel))


def _as_part(measure: Trips, number: int) -> Trips:
    from iolab.trial.round_trips.requests import FIRST_PORT

    return measure if measure.port is not None else measure.model_copy(update={"port": FIRST_PORT + number})


PING = MeasureKind(
    model=Ping,
    duration_ns=lambda measure: measure.duration + measure.warm_up,
    measure=Later("iolab.trial.round_trips.measure:measure_ping"),
    conclude=Later("iolab.trial.round_trips.measure:conclude_ping"),
    check_names=_check_names,
    named_by=frozenset({"from", "to"}),
    kernels=_kernels,
    check=_check,
    as_part=_as_part,
    joined_by=lambda measure: (measure.src, measure.dst, measure.ip),
    commands=_commands,
    leading=("rtt_p50_ns",),
    short_forms={"ping": ShortForm({"duration": "2s"})},
)
RR = MeasureKind(
    model=RequestResponse,
    duration_ns=lambda measure: measure.duration + measure.warm_up,
    measure=Later("iolab.trial.round_trips.measure:measure_transactions"),
    conclude=Later("iolab.trial.round_trips.measure:conclude_transactions"),
    check_names=_check_transactions,
    named_by=frozenset({"from", "to"}),
    kernels=_kernels,
    check=_check,
    as_part=_as_part,
    joined_by=lambda measure: (measure.src, measure.dst, measure.ip),
    commands=_commands,
    leading=("transactions_per_s",),
    short_forms={"rr": ShortForm({"duration": "2s"})},
)
