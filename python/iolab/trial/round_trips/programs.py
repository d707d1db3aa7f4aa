"""Run the agent's round-trip programs at both ends: start them, wait for them, and stop them in all cases."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from iolab.agent.client import REPLY_SLACK_S, Agent, Refused
from iolab.agent.messages import ProcessEnded
from iolab.errors import AgentError
from iolab.experiment.model.measures import RoundTrips
from iolab.lab.programs import on_cpus
from iolab.lab.topology import Endpoint
from iolab.messages.programs import ProgramEndedBadly, ProgramEndedEarly, ProgramTooLong
from iolab.results.trial import CommandRecord
from iolab.trial.disk.ran import own_program
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, TrialFailed
from iolab.trial.programs.running import how, written
from iolab.trial.round_trips.requests import requests_of

NAME = "roundtrip"
"""Name of the programs in messages and threads."""
READY_MS = 30_000
"""Timeout until a server listens [ms]; an emulated guest starts a program in one second, or in ten on a busy host."""
SLACK_MS = 30_000
"""Time beyond the requested duration after which a program counts as hung [ms]."""


@dataclass(frozen=True, slots=True)
class Done:
    """The programs at both ends, after they have exited."""

    asked: ProcessEnded
    """Process of the requesting end."""
    asker: str
    """Process ID of the requesting end."""
    server: str | None
    """Process ID of the answering end; None: its kernel answered."""
    commands: tuple[CommandRecord, ...]
    """Commands."""


def run_round_trips(site: Site, measure: RoundTrips, asking: Endpoint, answering: Endpoint) -> Done:
    """Run a server at one end and the requesting program at the other, for the whole duration.

    Raises:
        TrialFailed: a program failed; no program is left running.
        AgentError: the connection to an agent is lost.
    """
    serve, ask = requests_of(measure, asking, answering)
    wait_ms = (measure.warm_up + measure.duration + getattr(measure, "wait", 0)) // 1_000_000 + SLACK_MS
    asker, server = site.named(f"{NAME}-asks"), site.named(f"{NAME}-answers")
    try:
        with _running(site, answering, server, serve) as (serving, served_argv):
            agent = site.agent_of(asking.kernel)
            argv = (own_program(agent), NAME, ask)
            with _stopped(agent, asker):
                agent.start(asker, argv, netns=asking.netns, cpus=asking.cpus)
                ended = _ended(agent, asker, asking, wait_ms)
            if ended.exit_status != 0:
                raise Failed(
                    ProgramEndedBadly(
                        program=NAME,
                        machine=asking.machine,
                        ended=how(ended),
                        expected=0,
                        said=written(ended),
                    )
                )
            if serving is not None:
                _still_there(serving, server, answering)
    except Refused as error:
        raise TrialFailed(str(error)) from error
    took_ns = ended.end_ns - ended.begin_ns
    records = [_record(answering, served_argv, took_ns)] if served_argv else []
    return Done(ended, asker, server if serve else None, (*records, _record(asking, argv, took_ns)))


@contextmanager
def _running(
    site: Site, at: Endpoint, name: str, request: str | None
) -> Iterator[tuple[Agent | None, tuple[str, ...]]]:
    """Run a server during the block, if the measure needs one."""
    if request is None:
        yield None, ()
        return
    agent = site.agent_of(at.kernel)
    argv = (own_program(agent), NAME, request)
    with _stopped(agent, name):
        ready = {"kind": "output", "contains": "ready"}
        agent.start(name, argv, netns=at.netns, cpus=at.cpus, ready=ready, timeout_ms=READY_MS)
        yield agent, argv


@contextmanager
def _stopped(agent: Agent, name: str) -> Iterator[None]:
    """Stop a process at the end of the block."""
    try:
        yield
    finally:
        with suppress(AgentError):
            agent.call("process.stop", {"id": name, "grace_ms": 0})


def _ended(agent: Agent, name: str, at: Endpoint, wait_ms: int) -> ProcessEnded:
    try:
        return agent.wait(name, wait_ms)
    except Refused as error:
        if not error.is_deadline:
            raise
        limit_ns = wait_ms * 1_000_000
        raise Failed(ProgramTooLong(program=NAME, machine=at.machine, limit_ns=limit_ns, said="")) from error


def _still_there(agent: Agent, name: str, at: Endpoint) -> None:
    """Raise Failed if the server exited during the trial."""
    try:
        ended = agent.ask(ProcessEnded, "process.wait", {"id": name, "timeout_ms": 0}, REPLY_SLACK_S)
    except Refused as error:
        if not error.is_deadline:
            raise
        return
    raise Failed(ProgramEndedEarly(program=NAME, machine=at.machine, ended=how(ended), said=written(ended)))


def _record(at: Endpoint, argv: tuple[str, ...], took_ns: int) -> CommandRecord:
    return CommandRecord(
        machine=at.machine, kernel=at.kernel, netns=at.netns,
        argv=on_cpus(("iolab-agent", *argv[1:]), at.cpus), undo=None,
        exit_status=0, duration_ns=took_ns,
    )  # fmt: skip
