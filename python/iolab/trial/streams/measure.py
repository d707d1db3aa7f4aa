"""Run a stream trial: start iperf3 servers, run clients in parallel, read counters before, during and after.

The lab must exist; this module neither builds nor checks it. All times come from the agents' answers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iolab.agent.answers import Reading
from iolab.agent.client import Refused
from iolab.agent.messages import Json, ProcessEnded
from iolab.errors import AgentError
from iolab.experiment.model.measures import Stream
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import Way, stream_way
from iolab.lab.packets.resources import ways_below
from iolab.lab.programs import on_cpus
from iolab.lab.topology import Endpoint
from iolab.messages.failures import (
    ProgramFailed,
    ProgramKilled,
    ReceiverNotReached,
    ReceiverSilent,
    ReportsUnreadable,
)
from iolab.messages.places import computer
from iolab.messages.warnings import ReadingsDropped, SenderShort, TrialWarning
from iolab.results.metric import Metric, Metrics
from iolab.results.series import Series
from iolab.results.trial import CommandRecord, Effect
from iolab.trial.counters.differences import Counted, Snapshot
from iolab.trial.in_effect import in_effect
from iolab.trial.instruments.samplers import Kept
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, Measured, Readings, TrialFailed, after_begin_ns
from iolab.trial.packets.snapshots import places_on, wire_ends_on
from iolab.trial.streams.disturbances import disturbances
from iolab.trial.streams.figures import (
    Arrival,
    arrivals,
    cpu_metrics,
    disagreements,
    flow_metrics,
    flow_names,
    numbered,
    unread_metric,
)
from iolab.trial.streams.iperf3 import Pair, client_argv, place_pairs, server_argv
from iolab.trial.streams.iperf3_report import (
    UNREACHED,
    FlowReport,
    Report,
    flow_reports,
    interval_series,
    parse_report,
)
from iolab.trial.streams.kernels import IN_EFFECT, Kernels, in_flight, other_congestion, unconnected
from iolab.trial.streams.observe import Observed, connections_of, observe
from iolab.trial.streams.verdict import judge

SAMPLES_SCHEMA = 2
"""Schema version of a stream trial's raw samples."""
CLIENT_SLACK_MS = 20_000
"""Extra time for connecting and exchanging results on a loaded machine, after which a client counts as hung [ms]."""
READY_MS = 30_000
"""Timeout until a server listens [ms]; an emulated guest starts a program in one second, or in ten on a busy host."""
SERVER_END_MS = 20_000
"""Time within which a one-off server must exit after its client [ms]."""
OFFER_SHORT_RATIO = 0.01
"""Maximum shortfall of a sender's rate from the intended rate that causes no warning [ratio]."""


@dataclass(frozen=True, slots=True)
class StreamRead:
    """Data read in a trial."""

    observed: Observed
    """Data about the flows, except counters over time."""
    reports: Sequence[tuple[Report, Report]]
    """Reports of the client and the server of each pair."""
    ended: Sequence[ProcessEnded]
    """Clients."""
    served: Sequence[ProcessEnded]
    """Servers."""
    arrived: Sequence[Arrival]
    """Payload counted by the kernels, per receiving interface."""
    dropped: tuple[TrialWarning, ...]
    """Warnings about connection readings that an agent discarded."""
    in_effect: Mapping[str, Mapping[str, str]]
    """Settings that were read back."""


def measure_stream(site: Site, measure: Stream) -> StreamRead:
    """Run one stream trial.

    Raises:
        TrialFailed: iperf3 failed.
        AgentLost: an agent is lost; all programs of the other agents are stopped.
    """
    pairs = place_pairs(measure, site.topology)
    directions = _directions(site, pairs)
    carrying = [tuple(ways_below(site.lab, way)) for way in directions]
    ways, places = places_on(site, [*directions, *(way for own in carrying for way in own)])
    wires = wire_ends_on(site.lab, ways)
    kernels = Kernels(site, pairs, places, wires)
    servers = {f"server-{pair.tcp_port}": pair.server for pair in pairs}
    clients = {f"client-{pair.tcp_port}": pair.client for pair in pairs}
    try:
        _start_servers(kernels, servers, pairs, measure)
        before = kernels.read()
        kernels.watch_connections(measure.duration + measure.warm_up)
        for name, pair in zip(clients, pairs, strict=True):
            kernels.agent(pair.client).start(
                name, client_argv(pair, measure), netns=pair.client.netns, cpus=pair.client.cpus
            )
        patience_ms = (measure.warm_up + measure.duration) // 1_000_000 + CLIENT_SLACK_MS
        ended = _clients_ended(kernels, pairs, clients, patience_ms)
        sent = [_report(client, "client", pair) for pair, client in zip(pairs, ended, strict=True)]
        after = kernels.read(*IN_EFFECT)
        connections = kernels.connections()
        served = kernels.wait(servers, SERVER_END_MS)
    except (AgentError, TrialFailed) as error:
        kernels.abandon([*clients, *servers])
        if isinstance(error, Refused):
            raise TrialFailed(str(error)) from error
        raise
    received = [_report(server, "server", pair) for pair, server in zip(pairs, served, strict=True)]
    reports = list(zip(sent, received, strict=True))
    flows = _flows(pairs, reports)
    span_ns = max(client.end_ns for client in ended) - min(client.begin_ns for client in ended)
    observed = Observed(
        lab=site.lab, measure=measure, pairs=pairs, flows=flows, ways=ways[: len(directions)], span_ns=span_ns,
        below=_per_flow(carrying, ways[len(directions) :]),
        counted=Counted(places, before, after, wires), connections=_readings(connections), guests=site.guests,
        alone=site.alone,
        ran={pair.tcp_port: (one.begin_ns, one.end_ns) for pair, one in zip(pairs, ended, strict=True)},
    )  # fmt: skip
    return StreamRead(
        observed, reports, ended, served, _arrivals(measure, [flow for _, flow in flows], before, after),
        _dropped(connections),
        {**dict(_flows_in_effect(observed)), **in_effect(site.topology, _readings_of(after))},
    )  # fmt: skip


def conclude_stream(read: StreamRead, readings: Readings) -> Measured:
    """Derive the result from the reports of both ends and the counters during the trial."""
    observed, arrived = read.observed, read.arrived
    measure, pairs, flows = observed.measure, observed.pairs, observed.flows
    before, after = observed.counted.before, observed.counted.after
    seen = observe(observed, readings)
    return Measured(
        metrics=_metrics(
            measure, flows, arrived if observed.alone else (), observed.connections, before, after
        ),
        warnings=(
            *_short_senders(measure, [flow for _, flow in flows]),
            *other_congestion(measure, pairs, read.reports),
            *disagreements(measure.protocol, arrived, alone=observed.alone),
            *read.dropped,
            *disturbances(seen),
        ),
        measured_ns=observed.span_ns,
        commands=_commands(measure, pairs, read.ended, read.served),
        raw=_raw(read.reports, before, after),
        series=_series(pairs, read.reports, read.ended, readings),
        verdict=judge(seen),
        in_effect=read.in_effect,
    )


def _start_servers(kernels: Kernels, names: Iterable[str], pairs: Sequence[Pair], measure: Stream) -> None:
    """Start the servers and wait until each listens. Raises AgentError."""
    for name, pair in zip(names, pairs, strict=True):
        ready = {"kind": "listening", "protocol": "tcp", "port": pair.tcp_port}
        kernels.agent(pair.server).start(
            name, server_argv(pair, measure), netns=pair.server.netns, cpus=pair.server.cpus,
            ready=ready, timeout_ms=READY_MS,
        )  # fmt: skip


def _readings_of(snapshot: Snapshot) -> dict[str, Reading]:
    return {HERE: snapshot.reading, **snapshot.elsewhere}


def _flows_in_effect(seen: Observed) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the effective socket settings of each flow: congestion control, and explicitly set buffer sizes."""
    names = flow_names([flow for _, flow in seen.flows])
    for name, (pair, flow) in zip(names, seen.flows, strict=True):
        tcp = connections_of(seen, flow.src, flow.dst, pair.tcp_port, forth=flow.src == pair.client)
        if tcp is not None:
            found = {Effect.CONGESTION: tcp.congestion}
            if seen.measure.window is not None:  # otherwise buffers grow up to the stack's limits
                found[Effect.SEND_BUFFER] = str(tcp.largest_send_buffer_bytes)
                found[Effect.RECEIVE_BUFFER] = str(tcp.receive_buffer_bytes)
            yield name, {setting.value: value for setting, value in found.items()}


def _readings(kept: Mapping[str, Kept]) -> Readings:
    return {kernel: one.readings for kernel, one in kept.items()}


def _dropped(connections: Mapping[str, Kept]) -> tuple[TrialWarning, ...]:
    return tuple(
        ReadingsDropped(
            code="connections-dropped", host=computer(kernel), dropped=kept.dropped, kept=len(kept.readings)
        )
        for kernel, kept in connections.items()
        if kept.dropped
    )


def _directions(site: Site, pairs: Sequence[Pair]) -> list[Way]:
    """Return the path of each flow in pair order; for a bidirectional pair the reverse path follows."""
    return [
        stream_way(site.lab, site.topology, *ends)
        for pair in pairs
        for ends in ((pair.client, pair.server), (pair.server, pair.client))[: 2 if pair.bidir else 1]
    ]


def _per_flow(carrying: Sequence[Sequence[Way]], ways: Iterable[Way]) -> tuple[tuple[Way, ...], ...]:
    """Return the paths in `ways`, grouped by the flow that they carry."""
    left = iter(ways)
    return tuple(tuple(next(left) for _ in own) for own in carrying)


def _series(
    pairs: Sequence[Pair],
    reports: Sequence[tuple[Report, Report]],
    ended: Sequence[ProcessEnded],
    readings: Readings,
) -> tuple[Series, ...]:
    """Return the interval series of each flow, on the clock of its client's kernel."""
    found: list[tuple[str, Report, Report, int]] = []
    for pair, (client, server), process in zip(pairs, reports, ended, strict=True):
        begin_ns = after_begin_ns(readings, pair.client.kernel, process.begin_ns)
        ways = ((pair.client, pair.server, client, server), (pair.server, pair.client, server, client))
        for src, dst, sender, receiver in ways[: 2 if pair.bidir else 1]:
            found.append((f"{src.machine}->{dst.machine}", sender, receiver, begin_ns))
    names = numbered([name for name, *_ in found])
    return tuple(
        series
        for name, (_, sender, receiver, begin_ns) in zip(names, found, strict=True)
        for series in interval_series(name, sender, receiver, begin_ns)
    )


def _flows(
    pairs: Sequence[Pair], reports: Sequence[tuple[Report, Report]]
) -> tuple[tuple[Pair, FlowReport], ...]:
    """Return each flow with its pair, in pair order."""
    flows: list[tuple[Pair, FlowReport]] = []
    for pair, (client, server) in zip(pairs, reports, strict=True):
        try:
            flows += [(pair, flow) for flow in flow_reports(pair, client, server)]
        except ValueError as error:
            failure = ReportsUnreadable(program="iperf3", tcp_port=pair.tcp_port, said=str(error))
            raise Failed(failure) from error
    return tuple(flows)


def _metrics(
    measure: Stream,
    flows: Sequence[tuple[Pair, FlowReport]],
    arrived: Sequence[Arrival],
    connections: Readings,
    before: Snapshot,
    after: Snapshot,
) -> Metrics:
    metrics = Metrics(flow_metrics(measure.protocol, [flow for _, flow in flows]))
    loss = metrics.get("loss_ratio")
    unread = () if loss is None else unread_metric(loss.value, arrived)
    senders = [(flow.src, pair.tcp_port, flow.src == pair.client) for pair, flow in flows]
    waiting = in_flight(senders, connections, measure.duration)
    return Metrics((*metrics, *unread, *waiting, *_cpus(before, after)))


def _clients_ended(
    kernels: Kernels, pairs: Sequence[Pair], clients: Mapping[str, Endpoint], patience_ms: int
) -> list[ProcessEnded]:
    """Wait for the clients; a client that keeps running without a connection did not reach its receiver.

    Raises:
        Refused: a client with a connection keeps running.
    """
    try:
        return kernels.wait(clients, patience_ms)
    except Refused as error:
        if (pair := unconnected(pairs, _readings(kernels.connections()))) is None:
            raise
        ends = {"sender": pair.client.machine, "receiver": pair.server.machine}
        address, waited_ns = pair.server.address, patience_ms * 1_000_000
        raise Failed(
            ReceiverSilent(**ends, address=address, tcp_port=pair.tcp_port, waited_ns=waited_ns)
        ) from error


def _report(ended: ProcessEnded, role: str, pair: Pair) -> Report:
    try:
        return parse_report(ended.stdout)
    except ValueError as error:
        said = f"{error} {ended.stderr[:500]}".strip()
        if UNREACHED in said:
            ends = {"sender": pair.client.machine, "receiver": pair.server.machine}
            address = pair.server.address
            raise Failed(
                ReceiverNotReached(**ends, address=address, tcp_port=pair.tcp_port, said=said)
            ) from error
        raise Failed(_without_report(ended, role, said)) from error


def _without_report(ended: ProcessEnded, role: str, said: str) -> ProgramFailed | ProgramKilled:
    if ended.exit_status is None:
        return ProgramKilled(program="iperf3", role=role, signal=ended.signal or 0, said=said)
    return ProgramFailed(program="iperf3", role=role, status=ended.exit_status, said=said)


def _cpus(before: Snapshot, after: Snapshot) -> list[Metric]:
    """Return the CPU use of the local host, and of other kernels by machine."""
    return [
        metric
        for kernel in (HERE, *before.elsewhere)
        for metric in cpu_metrics(before.of(kernel), after.of(kernel), None if kernel == HERE else kernel)
    ]


def _arrivals(
    measure: Stream, flows: Sequence[FlowReport], before: Snapshot, after: Snapshot
) -> tuple[Arrival, ...]:
    """Return the payload that arrived at each receiving interface of the flows, on all kernels."""
    found: list[Arrival] = []
    for kernel in (HERE, *before.elsewhere):
        own = [
            flow
            for flow in flows
            if kernel == (flow.dst.kernel if flow.dst.kernel in before.elsewhere else HERE)
        ]
        length = measure.length if isinstance(measure.length, int) else None
        found += arrivals(measure.protocol, own, before.of(kernel), after.of(kernel), length)
    return tuple(found)


def _raw(
    reports: Sequence[tuple[Report, Report]],
    before: Snapshot,
    after: Snapshot,
) -> dict[str, Json]:
    """Return reports and readings for the samples folder; readings of other kernels are stored by machine."""

    def read(earlier: Reading, later: Reading) -> dict[str, Json]:
        return {"before": earlier.raw, "after": later.raw}

    others = {name: read(own, after.elsewhere[name]) for name, own in before.elsewhere.items()}
    return {
        "schema": SAMPLES_SCHEMA,
        "iperf3": [{"client": client.raw, "server": server.raw} for client, server in reports],
        **read(before.reading, after.reading),
        **({"kernels": others} if others else {}),
    }


def _commands(
    measure: Stream, pairs: Sequence[Pair], ended: Sequence[ProcessEnded], served: Sequence[ProcessEnded]
) -> tuple[CommandRecord, ...]:
    return tuple(
        record
        for pair, client, server in zip(pairs, ended, served, strict=True)
        for record in (
            _ran(pair.server, server_argv(pair, measure), server),
            _ran(pair.client, client_argv(pair, measure), client),
        )
    )


def _ran(at: Endpoint, argv: tuple[str, ...], ended: ProcessEnded) -> CommandRecord:
    return CommandRecord(
        machine=at.machine,
        kernel=at.kernel,
        netns=at.netns,
        argv=on_cpus(argv, at.cpus),
        undo=None,
        exit_status=ended.exit_status,
        duration_ns=ended.end_ns - ended.begin_ns,
    )


def _short_senders(measure: Stream, flows: Sequence[FlowReport]) -> tuple[TrialWarning, ...]:
    """Return a warning for every sender below the intended rate."""
    if measure.rate is None:
        return ()
    intended_bps = measure.rate * measure.parallel
    return tuple(
        SenderShort(machine=flow.src.machine, sent_bps=flow.sent_bps, intended_bps=intended_bps)
        for flow in flows
        if flow.sent_bps < intended_bps * (1 - OFFER_SHORT_RATIO)
    )
