"""Run one trial of a user program, with its servers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import Json, ProcessEnded
from iolab.errors import TrialFailed
from iolab.experiment.model.measures import CommandMeasure
from iolab.lab.endpoints import Port
from iolab.messages.programs import OutputTooLong, ProgramEndedBadly, ProgramsForkedAway
from iolab.results.metric import Metric, Metrics
from iolab.results.series import Series, series
from iolab.trial.interference.disturbed import disturbed
from iolab.trial.interference.work import Looked, helpers_between, work_done
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, Measured, Readings, after_begin_ns
from iolab.trial.programs.figures import figures_in
from iolab.trial.programs.running import (
    CAPTURE_BYTES,
    Running,
    how,
    placed,
    record,
    start,
    stop,
    sweep,
    wait,
    written,
)
from iolab.trial.programs.verdict import Line, Ran, ServiceRan, judge, lines_of

SCHEMA = 1
"""Schema version of the raw samples."""
ID = "program"
"""Process ID of the measuring program in the agent; process IDs of servers are derived from this ID."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Data read in a trial."""

    measure: CommandMeasure
    """Measure."""
    program: tuple[Running, ProcessEnded]
    """Measuring program, and how it exited."""
    servers: tuple[tuple[Running, ProcessEnded], ...]
    """Servers, and how each of them exited."""
    values: Mapping[str, Sequence[float]]
    """Values of each figure, in output order."""
    work: tuple[Looked, Looked]
    """CPU work on the hosts before and after the trial."""
    lines: tuple[Line, ...]
    """Ports of the lab that send into an emulated link of known rate."""
    ports: Sequence[Port]
    """Ports of the lab."""


def measure_command(site: Site, measure: CommandMeasure) -> Programs:
    """Run one trial.

    Raises:
        TrialFailed: a program failed, or its output lacks a figure; no program is left running.
        AgentError: the connection to an agent is lost.
    """
    agents = {id(one): one for one in _agents(site, measure)}.values()
    own = f"{ID}-{blake2b(site.part.encode(), digest_size=4).hexdigest()}" if site.part else ID
    work_before = work_done(site)
    try:
        with ExitStack() as stack:
            servers = []
            for name, server in measure.servers.items():
                servers.append(stack.enter_context(placed(site, measure, server, f"{own}-{name}")))
                start(servers[-1], server.ready, server.within // 1_000_000)
            running = stack.enter_context(placed(site, measure, measure, own))
            start(running)
            ended = wait(running, measure.timeout // 1_000_000)
            served = [stop(server) for server in reversed(servers)][::-1]
    except Refused as error:
        raise TrialFailed(str(error)) from error
    finally:
        left = sum(sweep(agent, site.part) for agent in agents)
    work_after = work_done(site)
    _check(running, measure, ended)
    if left:
        raise Failed(ProgramsForkedAway(programs=(*(one.name for one in servers), running.name), left=left))
    values = figures_in(ended.stdout, measure.metrics, ended.stderr)
    return Programs(
        measure=measure,
        program=(running, ended),
        servers=tuple(zip(servers, served, strict=True)),
        values=values,
        work=(work_before, work_after),
        lines=tuple(lines_of(site.lab, site.topology)),
        ports=site.topology.ports(),
    )


def conclude_command(evidence: Programs, readings: Readings) -> Measured:
    """Derive the result from the programs' output and the counters during the trial."""
    measure, ended = evidence.measure, evidence.program[1]
    took_ns = ended.end_ns - ended.begin_ns
    ran = [_ran(*one) for one in (evidence.program, *evidence.servers)]
    services = tuple(_services(*evidence.work, took_ns, evidence.ports))
    return Measured(
        metrics=Metrics((*_figures(measure, evidence.values), *_own(ended))),
        warnings=disturbed(*evidence.work, readings),
        measured_ns=took_ns,
        commands=tuple(record(*one) for one in (*evidence.servers, evidence.program)),
        raw=_raw(measure, ended, [one for _, one in evidence.servers]),
        series=_series(evidence, readings),
        verdict=judge(ran, evidence.lines, readings, (ended.begin_ns, ended.end_ns), services),
    )


def _agents(site: Site, measure: CommandMeasure) -> Iterator[Agent]:
    for program in (measure, *measure.servers.values()):
        yield site.agent_of(site.topology.homes[program.on].kernel)


def _check(running: Running, measure: CommandMeasure, ended: ProcessEnded) -> None:
    where = {"program": running.name, "machine": measure.on}
    if ended.exit_status != measure.exit_status:
        said = written(ended)
        raise Failed(ProgramEndedBadly(**where, ended=how(ended), expected=measure.exit_status, said=said))
    if ended.stdout_dropped_bytes and measure.metrics:
        dropped = ended.stdout_dropped_bytes
        raise Failed(OutputTooLong(**where, kept_bytes=CAPTURE_BYTES, dropped_bytes=dropped))


def _ran(running: Running, ended: ProcessEnded) -> Ran:
    return Ran(
        process=running.id,
        name=running.name,
        machine=running.program.on,
        kernel=running.home.kernel,
        cpus=tuple(running.home.cpus),
        cpu_ns=ended.cpu_user_ns + ended.cpu_system_ns,
        took_ns=ended.end_ns - ended.begin_ns,
    )


def _services(before: Looked, after: Looked, took_ns: int, ports: Sequence[Port]) -> Iterator[ServiceRan]:
    """Yield the CPU use of the lab's services while a program ran, on the hosts whose CPU work was read."""
    for kernel, work in after.items():
        for one in helpers_between(before[kernel], work) if kernel in before else ():
            machine, dot, name = one.name.partition(".")
            if dot:
                span_ns = max(1, took_ns)
                looked_ns = max(span_ns, (work.all_ns - before[kernel].all_ns) // work.cpus)
                run_ratio = min(1.0, one.thread.run_ns / span_ns) if one.thread is not None else 0.0
                yield ServiceRan(
                    name=name,
                    machine=machine,
                    cpus_ratio=_of_time(one.cpu_ns, span_ns, looked_ns),
                    busiest_ratio=_of_time(one.busiest_ns, span_ns, looked_ns),
                    threads=one.threads,
                    run_ratio=run_ratio,
                    wait_ratio=min(1.0 - run_ratio, one.thread.wait_ns / span_ns) if one.thread else 0.0,
                    ports=tuple(port for port in ports if port.machine == machine),
                )


def _of_time(cpu_ns: int, span_ns: int, looked_ns: int) -> float:
    """Return CPU time per second of a program's run, from a count over a longer time [CPUs].

    If one CPU could have used all this time within the longer time, the result is at most one CPU.
    """
    return min(cpu_ns / span_ns, max(1.0, cpu_ns / looked_ns))


def _figures(measure: CommandMeasure, values: Mapping[str, Sequence[float]]) -> list[Metric]:
    return [
        Metric(name, figure.unit, _mean(values[name]), better=figure.better or "")
        for name, figure in measure.metrics.items()
    ]


def _mean(values: Sequence[float]) -> float:
    """Return the decimal mean of printed numbers; the mean of one number is exactly that number."""
    return float(sum(Decimal(repr(value)) for value in values) / len(values))


def _own(ended: ProcessEnded) -> tuple[Metric, ...]:
    """Return iolab's own metrics of the program: elapsed time and CPU time."""
    return (
        Metric.of("elapsed_s", (ended.end_ns - ended.begin_ns) / 1e9),
        Metric.of("cpu_user_s", ended.cpu_user_ns / 1e9),
        Metric.of("cpu_system_s", ended.cpu_system_ns / 1e9),
    )


def _series(evidence: Programs, readings: Readings) -> tuple[Series, ...]:
    """Return the figures over time as series, on the clock of the program's kernel."""
    running, ended = evidence.program
    begin_ns = after_begin_ns(readings, running.home.kernel, ended.begin_ns)
    return tuple(
        series(
            name, figure.unit,
            [(begin_ns + at * figure.per_line, value) for at, value in enumerate(evidence.values[name], 1)],
            source=ID,
        )
        for name, figure in evidence.measure.metrics.items()
        if figure.per_line is not None
    )  # fmt: skip


def _raw(measure: CommandMeasure, ended: ProcessEnded, served: Sequence[ProcessEnded]) -> dict[str, Json]:
    """Return the programs' output for the samples folder."""
    return {
        "schema": SCHEMA,
        "program": _wrote(ended),
        "servers": {name: _wrote(one) for name, one in zip(measure.servers, served, strict=True)},
    }


def _wrote(ended: ProcessEnded) -> dict[str, Json]:
    return {
        "exit_status": ended.exit_status,
        "signal": ended.signal,
        "stdout": ended.stdout,
        "stderr": ended.stderr,
        "stdout_dropped_bytes": ended.stdout_dropped_bytes,
        "stderr_dropped_bytes": ended.stderr_dropped_bytes,
    }
