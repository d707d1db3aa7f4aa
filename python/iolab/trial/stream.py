"""A stream trial: iperf3 servers made ready, clients run together, counters read before and after.

It needs a lab that stands; it neither builds nor checks it. Its time comes from the agent's answers.
"""

from collections.abc import Mapping, Sequence

from iolab.agent.client import Agent, AgentLost, Refused
from iolab.agent.messages import Json, ProcessEnded, Reading
from iolab.errors import AgentError
from iolab.experiment.measures import Stream
from iolab.lab.kernels import HERE
from iolab.lab.topology import Endpoint, Topology
from iolab.record.metric import Metric, Metrics
from iolab.record.trial import CommandRecord
from iolab.statements.warnings import SenderShort, Warning
from iolab.trial.counters import Arrival, arrivals, cpu_metrics, disagreements, unread_metric
from iolab.trial.flows import place_pairs
from iolab.trial.iperf3 import FlowReport, Pair, client_argv, flow_reports, server_argv
from iolab.trial.iperf3_report import Report, parse_report
from iolab.trial.measured import Measured, TrialFailed
from iolab.trial.metrics import flow_metrics

SAMPLES_SCHEMA = 1
"""Version of the raw samples of a stream trial."""
CLIENT_SLACK_MS = 20_000
"""Connecting and the exchange of results, on a loaded machine; beyond it the client is called stuck."""
READY_MS = 30_000
"""Until a server listens; an emulated guest takes a second to start a program, on a busy host ten."""
SERVER_END_MS = 20_000
"""A one-off server ends by itself as soon as its client has."""
OFFER_SHORT_RATIO = 0.01
"""A sender more than this below the intended rate is worth a warning."""


def measure_stream(
    agent: Agent, measure: Stream, topology: Topology, elsewhere: Mapping[str, Agent] | None = None
) -> Measured:
    """Measure once; `elsewhere` has the agents of ends on other kernels, by kernel.

    Raises:
        TrialFailed: iperf3 did not do its part.
        AgentLost: an agent is gone; nothing goes on running at the others.
    """
    pairs = place_pairs(measure, topology)
    kernels = Kernels(agent, elsewhere or {}, pairs)
    servers = [f"server-{pair.tcp_port}" for pair in pairs]
    clients = [f"client-{pair.tcp_port}" for pair in pairs]
    try:
        for name, pair in zip(servers, pairs, strict=True):
            ready = {"kind": "listening", "protocol": "tcp", "port": pair.tcp_port}
            at = kernels.agent(pair.server)
            at.start(name, server_argv(pair), netns=pair.server.netns, ready=ready, timeout_ms=READY_MS)
        before = kernels.read()
        for name, pair in zip(clients, pairs, strict=True):
            kernels.agent(pair.client).start(name, client_argv(pair, measure), netns=pair.client.netns)
        patience_ms = (measure.warm_up + measure.duration) // 1_000_000 + CLIENT_SLACK_MS
        ended = [
            kernels.agent(pair.client).wait(name, patience_ms)
            for name, pair in zip(clients, pairs, strict=True)
        ]
        sent = [_report(client, "client") for client in ended]
        after = kernels.read()
        served = [
            kernels.agent(pair.server).wait(name, SERVER_END_MS)
            for name, pair in zip(servers, pairs, strict=True)
        ]
    except (AgentError, TrialFailed) as error:
        kernels.abandon([*clients, *servers])
        if isinstance(error, Refused):
            raise TrialFailed(str(error)) from error
        raise
    reports = [(client, _report(server, "server")) for client, server in zip(sent, served, strict=True)]
    return _reduce(measure, pairs, reports, ended, served, before, after)


def _abandon(agent: Agent, processes: Sequence[str]) -> None:
    """Stop what a failed trial may have left running."""
    for name in processes:
        try:
            agent.call("process.stop", {"id": name})
        except Refused:
            continue  # it had not been started, or has been collected
        except AgentLost:
            return  # it ends with its kernel


class Kernels:
    """The kernels that the ends of a stream are on, the agent's own first."""

    def __init__(self, agent: Agent, elsewhere: Mapping[str, Agent], pairs: Sequence[Pair]) -> None:
        ends = [end for pair in pairs for end in (pair.client, pair.server)]
        self._own = agent
        self._agents = {HERE: agent} | {
            end.kernel: elsewhere[end.kernel] for end in ends if end.kernel in elsewhere
        }
        self._netns: dict[str, list[str | None]] = {kernel: [] for kernel in self._agents}
        for kernel, netns in sorted({(self._kernel(end), end.netns) for end in ends}, key=str):
            self._netns[kernel].append(netns)

    def agent(self, end: Endpoint) -> Agent:
        """Return the agent of an end."""
        return self._agents[self._kernel(end)]

    def read(self) -> dict[str, Reading]:
        """Read the counters of every kernel."""
        return {kernel: agent.read_samples(self._netns[kernel]) for kernel, agent in self._agents.items()}

    def abandon(self, processes: Sequence[str]) -> None:
        """Stop what a failed trial may have left running."""
        for agent in self._agents.values():
            _abandon(agent, processes)

    def _kernel(self, end: Endpoint) -> str:
        return end.kernel if end.kernel in self._agents else HERE


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
    before: Mapping[str, Reading],
    after: Mapping[str, Reading],
) -> Measured:
    flows: list[FlowReport] = []
    for pair, (client, server) in zip(pairs, reports, strict=True):
        try:
            flows += flow_reports(pair, client, server)
        except ValueError as error:
            raise TrialFailed(
                f"reading what the iperf3 pair at port {pair.tcp_port} reported: {error}"
            ) from error
    arrived = _arrivals(measure, flows, before, after)
    metrics = Metrics(flow_metrics(measure.protocol, flows))
    loss = metrics.get("loss_ratio")
    unread = () if loss is None else unread_metric(loss.value, arrived)
    return Measured(
        metrics=Metrics((*metrics, *unread, *_cpus(before, after))),
        warnings=(*_short_senders(measure, flows), *disagreements(measure.protocol, arrived)),
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
            "iperf3": [{"client": client.raw, "server": server.raw} for client, server in reports],
            "before": before[HERE].raw,
            "after": after[HERE].raw,
            **_others(before, after),
        },
    )


def _cpus(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> list[Metric]:
    """Return what CPUs did: this computer's, and those of other kernels by machine."""
    return [
        metric
        for kernel in before
        for metric in cpu_metrics(before[kernel], after[kernel], None if kernel == HERE else kernel)
    ]


def _arrivals(
    measure: Stream, flows: Sequence[FlowReport], before: Mapping[str, Reading], after: Mapping[str, Reading]
) -> tuple[Arrival, ...]:
    """Compare each flow with the counters of the kernel where it arrives."""
    found: list[Arrival] = []
    for kernel in before:
        own = [flow for flow in flows if kernel == (flow.dst.kernel if flow.dst.kernel in before else HERE)]
        found += arrivals(measure.protocol, own, before[kernel], after[kernel])
    return tuple(found)


def _others(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> dict[str, Json]:
    """Return the readings of other kernels, by machine; nothing where there are none."""
    readings = {
        kernel: {"before": before[kernel].raw, "after": after[kernel].raw} for kernel in list(before)[1:]
    }
    return {"kernels": readings} if readings else {}


def _ran(at: Endpoint, argv: tuple[str, ...], ended: ProcessEnded) -> CommandRecord:
    return CommandRecord(
        machine=at.machine,
        kernel=at.kernel,
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
        SenderShort(machine=flow.src.machine, sent_bps=flow.sent_bps, intended_bps=intended_bps)
        for flow in flows
        if flow.sent_bps < intended_bps * (1 - OFFER_SHORT_RATIO)
    )
