"""Run a measure's programs in a lab: start them, wait for readiness and exit, and stop them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from iolab.agent.client import REPLY_SLACK_S, Agent, Refused
from iolab.agent.decoding import decode
from iolab.agent.messages import FolderMade, Json, ProcessEnded
from iolab.errors import AgentError
from iolab.experiment.model.machines import Ready
from iolab.experiment.model.measures import CommandMeasure, Program
from iolab.lab.programs import on_cpus
from iolab.lab.topology import Home
from iolab.locale import Phrase
from iolab.messages.failures import Failure, ProgramFault
from iolab.messages.programs import ProgramEndedEarly, ProgramNotReady, ProgramTooLong
from iolab.results.trial import CommandRecord
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed
from iolab.trial.programs.words import argv_of, environment_of, filler, name_of

START_MS = 30_000
"""Timeout for starting a program [ms]; an emulated guest takes one second, or ten on a busy host."""
GRACE_MS = 2_000
"""Time between SIGTERM and SIGKILL [ms]."""
CAPTURE_BYTES = 4 << 20
"""Maximum number of bytes kept of each output."""
SHOWN = 500
"""Maximum number of output characters in messages."""
MARK = "IOLAB_PROGRAMS"
"""Environment variable of every program; it identifies processes that have left their process group by forking."""
SWEEP = """
count=0
for one in $(grep -lsz "^$0=$1\\$" /proc/[0-9]*/environ); do
    one=${one#/proc/}
    kill -9 "${one%/environ}" && count=$((count + 1))
done
echo $count
"""
"""Script that kills processes with the variable MARK and prints how many there were."""
POLL = ("sh", "-c", 'until "$@" >/dev/null 2>&1; do sleep 0.02; done', "sh")
"""Script that repeats a command until it succeeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Agent's report on a program that was not ready."""

    output: str = ""
    """Output of the program."""
    exit_status: int | None = None
    """Exit status; None: ended by `signal`, or not started."""
    signal: int | None = None
    """Signal that ended the program."""


@dataclass(frozen=True, slots=True)
class Running:
    """A program of a measure on its machine."""

    program: Program
    """Program in the experiment file."""
    agent: Agent
    """Agent of the kernel."""
    home: Home
    """Location of the program."""
    id: str
    """Process ID in the agent."""
    argv: tuple[str, ...]
    """Command."""
    environment: dict[str, str]
    """Additional environment variables."""
    fill: Callable[[str], str]
    """Function that replaces names with addresses."""
    part: str = ""
    """Name of the measure if other measures run in parallel; empty otherwise."""

    @property
    def name(self) -> str:
        """Return the program's name in messages."""
        return name_of(self.program)


@contextmanager
def placed(site: Site, measure: CommandMeasure, program: Program, name: str) -> Iterator[Running]:
    """Yield a program with its folder and command line; finally stop the program and delete the folder.

    Raises:
        AgentError: the agent refused the request, or is lost.
    """
    home = site.topology.homes[program.on]
    agent, fill = site.agent_of(home.kernel), filler(measure, program, site.topology)
    own = program.folder is None
    folder = program.folder or agent.ask(FolderMade, "folder.create", {"name": name}).path
    running = Running(
        program, agent, home, name,
        argv_of(program, fill(folder), fill), environment_of(program, fill), fill, site.part,
    )  # fmt: skip
    try:
        yield running
    finally:
        _quietly(agent, "process.stop", {"id": name, "grace_ms": 0})
        if own:
            _quietly(agent, "folder.delete", {"name": name})


def start(running: Running, ready: Ready = Ready(), within_ms: int = START_MS) -> None:  # noqa: B008
    """Start a program and wait until it is ready.

    Raises:
        Failed: the program does not exist, ended early, or was not ready in time.
        AgentLost: the agent is lost.
    """
    try:
        running.agent.start(
            running.id, running.argv, netns=running.home.netns, cpus=running.home.cpus,
            environment=_marked(running), ready=_first(ready), timeout_ms=within_ms,
            capture_bytes=CAPTURE_BYTES,
        )  # fmt: skip
    except Refused as error:
        raise Failed(_not_begun(running, error, within_ms)) from error
    if ready.succeeds:
        words = (*POLL, *map(running.fill, ready.succeeds))
        tried = running.agent.run(words, netns=running.home.netns, timeout_ms=within_ms)
        if not tried.succeeded:
            said = written(stop(running))
            raise Failed(_not_ready(running, within_ms, said))


def wait(running: Running, timeout_ms: int) -> ProcessEnded:
    """Wait for a program to exit.

    Raises:
        Failed: the program exceeded its time and was killed.
        AgentLost: the agent is lost.
    """
    try:
        return running.agent.wait(running.id, timeout_ms)
    except Refused as error:
        if not error.is_deadline:
            raise
        ended = _stopped(running)
        raise Failed(
            ProgramTooLong(
                program=running.name, machine=running.program.on, limit_ns=timeout_ms * 1_000_000,
                said=written(ended),
            )
        ) from error  # fmt: skip


def stop(running: Running) -> ProcessEnded:
    """Stop a server that should still be running.

    Raises:
        Failed: the server had already exited with an error.
    """
    try:
        ended = running.agent.wait(running.id, 0)
    except Refused as error:
        if not error.is_deadline:
            raise
        return _stopped(running)
    if ended.exit_status != 0:
        raise Failed(
            ProgramEndedEarly(
                program=running.name, machine=running.program.on, ended=how(ended), said=written(ended)
            )
        )
    return ended


def sweep(agent: Agent, part: str = "") -> int:
    """Kill processes of a measure that left their process group by forking; return their number.

    `part` is the measure's name if other measures run in parallel.
    """
    with suppress(AgentError, ValueError):
        return int(agent.run(("sh", "-c", SWEEP, MARK, _mark(agent, part))).stdout)
    return 0


def how(ended: ProcessEnded) -> str:
    """Return how a program ended, e.g. "status 1" or "signal 9"."""
    return _ending(ended.exit_status, ended.signal)


def _ending(status: int | None, signal: int | None) -> str:
    if status is None:
        return str(Phrase("trial.ended-by-signal", signal=signal))
    return str(Phrase("trial.ended-with-status", status=status))


def written(ended: ProcessEnded) -> str:
    """Return the end of a program's standard error or, if that is empty, of its standard output."""
    return (ended.stderr.strip() or ended.stdout.strip())[-SHOWN:]


def record(running: Running, ended: ProcessEnded) -> CommandRecord:
    """Return the record of a finished program for commands.jsonl."""
    return CommandRecord(
        machine=running.program.on, kernel=running.home.kernel, netns=running.home.netns,
        argv=on_cpus(running.argv, running.home.cpus), undo=None,
        exit_status=ended.exit_status, duration_ns=ended.end_ns - ended.begin_ns,
    )  # fmt: skip


def _marked(running: Running) -> dict[str, str]:
    return {**running.environment, MARK: _mark(running.agent, running.part)}


def _mark(agent: Agent, part: str) -> str:
    return f"{agent.hello.pid} {part}".rstrip()


def _first(ready: Ready) -> Json:
    """Return the readiness condition that the agent checks."""
    if ready.listens is not None:
        return {"kind": "listening", "protocol": ready.protocol, "port": ready.listens}
    return None if ready.prints is None else {"kind": "output", "contains": ready.prints}


def _not_begun(running: Running, error: Refused, within_ms: int) -> Failure:
    """Return the reason why a program was not ready, as the agent reported it."""
    seen = decode(
        Seen, error.data or {}, Phrase("agent.refusal-of", method="process.start"), agent=running.agent.name
    )
    where = {"program": running.name, "machine": running.program.on}
    said = seen.output.strip()[-SHOWN:]
    if error.is_deadline:
        return _not_ready(running, within_ms, said)
    if seen.exit_status is None and seen.signal is None:
        return ProgramFault(code="program-not-started", **where, said=str(error))
    return ProgramEndedEarly(**where, ended=_ending(seen.exit_status, seen.signal), said=said)


def _not_ready(running: Running, within_ms: int, said: str) -> ProgramNotReady:
    return ProgramNotReady(
        program=running.name, machine=running.program.on, waited_ns=within_ms * 1_000_000, said=said
    )


def _stopped(running: Running) -> ProcessEnded:
    asked: dict[str, Json] = {"id": running.id, "grace_ms": GRACE_MS}
    return running.agent.ask(ProcessEnded, "process.stop", asked, GRACE_MS / 1000 + REPLY_SLACK_S)


def _quietly(agent: Agent, method: str, params: dict[str, Json]) -> None:
    """Call a clean-up method of the agent and ignore errors, because the object may already be deleted."""
    with suppress(AgentError):
        agent.call(method, params)
