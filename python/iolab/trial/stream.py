"""A stream trial: iperf3 servers made ready, clients run together, counters read before and after.

It needs a lab that stands; it neither builds nor checks it. Its time comes from the agent's answers.
"""

from collections.abc import Sequence

from iolab.agent.client import ALL_SAMPLERS, Agent, Refused
from iolab.agent.messages import Json, ProcessEnded, Reading
from iolab.experiment.measures import Stream
from iolab.lab.topology import Endpoint, Topology
from iolab.trial.counters import cpu_metrics, disagreements
from iolab.trial.flows import place_pairs
from iolab.trial.iperf3 import FlowReport, Pair, Report, client_argv, flow_reports, parse_report, server_argv
from iolab.trial.measured import Measured, TrialFailed
from iolab.trial.metrics import flow_metrics
from iolab.trial.result import CommandRecord, Warning

SAMPLES_SCHEMA = 1
"""Version of the raw samples of a stream trial."""
CLIENT_SLACK_MS = 20_000
"""Connecting and the exchange of results, on a loaded machine; beyond it the client is called stuck."""
SERVER_END_MS = 5_000
"""A one-off server ends by itself as soon as its client has."""
SERIES_PERIOD_MS = 1_000
OFFER_SHORT_RATIO = 0.01
"""A sender more than this below the intended rate is told to the reader."""


def measure_stream(agent: Agent, measure: Stream, topology: Topology) -> Measured:
    """Measure once.

    Raises:
        TrialFailed: iperf3 did not do its part.
        AgentError: the agent is gone.
    """
    pairs = place_pairs(measure, topology)
    netns = sorted({end.netns for pair in pairs for end in (pair.client, pair.server)}, key=str)
    servers = [f"server-{pair.tcp_port}" for pair in pairs]
    clients = [f"client-{pair.tcp_port}" for pair in pairs]
    try:
        for name, pair in zip(servers, pairs, strict=True):
            ready = {"kind": "listening", "protocol": "tcp", "port": pair.tcp_port}
            agent.start(name, server_argv(pair), netns=pair.server.netns, ready=ready)
        before = agent.read_samples(netns)
        agent.call(
            "sample.start",
            {"series": "trial", "period_ms": SERIES_PERIOD_MS, "samplers": ALL_SAMPLERS, "netns": netns},
        )
        for name, pair in zip(clients, pairs, strict=True):
            agent.start(name, client_argv(pair, measure), netns=pair.client.netns)
        patience_ms = (measure.warm_up + measure.duration) // 1_000_000 + CLIENT_SLACK_MS
        ended = [agent.wait(name, patience_ms) for name in clients]
        sent = [_report(client, "client") for client in ended]
        after = agent.read_samples(netns)
        series = agent.call("sample.stop", {"series": "trial"})
        served = [agent.wait(name, SERVER_END_MS) for name in servers]
    except Refused as error:
        _abandon(agent, [*clients, *servers])
        raise TrialFailed(str(error)) from error
    except TrialFailed:
        _abandon(agent, [*clients, *servers])
        raise
    reports = [(client, _report(server, "server")) for client, server in zip(sent, served, strict=True)]
    return _reduce(measure, pairs, reports, ended, served, before, after, series)


def _abandon(agent: Agent, processes: Sequence[str]) -> None:
    """Stop what a failed trial may have left running."""
    for method, params in [
        ("sample.stop", {"series": "trial"}),
        *(("process.stop", {"id": name}) for name in processes),
    ]:
        try:
            agent.call(method, params)
        except Refused:
            continue  # it had not been started, or has been collected


def _report(ended: ProcessEnded, role: str) -> Report:
    try:
        return parse_report(ended.stdout)
    except ValueError as error:
        raise TrialFailed(
            f"the iperf3 {role} ended with status {ended.exit_status}: {error} {ended.stderr[:500]}".strip()
        ) from error


def _reduce(
    measure: Stream,
    pairs: Sequence[Pair],
    reports: Sequence[tuple[Report, Report]],
    ended: Sequence[ProcessEnded],
    served: Sequence[ProcessEnded],
    before: Reading,
    after: Reading,
    series: Json,
) -> Measured:
    flows: list[FlowReport] = []
    for pair, (client, server) in zip(pairs, reports, strict=True):
        flows += flow_reports(pair, client, server)
    return Measured(
        metrics={**flow_metrics(measure.protocol, flows), **cpu_metrics(before, after)},
        warnings=(*_short_senders(measure, flows), *disagreements(measure.protocol, flows, before, after)),
        measured_ns=max(client.end_ns for client in ended) - min(client.begin_ns for client in ended),
        commands=tuple(
            record
            for pair, client, server in zip(pairs, ended, served, strict=True)
            for record in (
                _ran(pair.server, server_argv(pair), server),
                _ran(pair.client, client_argv(pair, measure), client),
            )
        ),
        raw={
            "schema": SAMPLES_SCHEMA,
            "iperf3": [{"client": client, "server": server} for client, server in reports],
            "before": before.raw,
            "after": after.raw,
            "series": series,
        },
    )


def _ran(at: Endpoint, argv: tuple[str, ...], ended: ProcessEnded) -> CommandRecord:
    return CommandRecord(
        machine=at.machine,
        netns=at.netns,
        argv=argv,
        undo=None,
        exit_status=ended.exit_status,
        duration_ns=ended.end_ns - ended.begin_ns,
    )


def _short_senders(measure: Stream, flows: Sequence[FlowReport]) -> tuple[Warning, ...]:
    """Return a warning for every sender that did not reach the intended rate."""
    if measure.rate is None:
        return ()
    intended_bps = measure.rate * measure.parallel
    return tuple(
        Warning(
            "sender-short",
            f"{flow.src.machine} sent {flow.sent_bps / 1e6:.1f} of {intended_bps / 1e6:.1f} Mbit/s intended",
            "the sender is the limit: lower the rate, or read the result as the sender's",
        )
        for flow in flows
        if flow.sent_bps < intended_bps * (1 - OFFER_SHORT_RATIO)
    )
