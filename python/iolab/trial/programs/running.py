"""Programs of a measure on a standing lab: started, made ready, waited for and stopped, whatever they do."""

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
"""Until a program is started; an emulated guest takes a second, on a busy host ten."""
GRACE_MS = 2_000
"""From the signal to end, to the one that kills."""
CAPTURE_BYTES = 4 << 20
"""Of each output, what is kept."""
SHOWN = 500
"""Characters of an output that messages show."""
MARK = "IOLAB_PROGRAMS"
"""In the environment of every program: what has it afterwards has forked away."""
SWEEP = """
count=0
for one in $(grep -lsz "^$0=$1\\$" /proc/[0-9]*/environ); do
    one=${one#/proc/}
    kill -9 "${one%/environ}" && count=$((count + 1))
done
echo $count
"""
"""Kills what has the mark, and prints how many processes that were."""
POLL = ("sh", "-c", 'until "$@" >/dev/null 2>&1; do sleep 0.02; done', "sh")
"""Tries a command until it succeeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an agent says of a program that was not ready."""

    output: str = ""
    """What it wrote."""
    exit_status: int | None = None
    """How it ended; None: by `signal`, or it did not begin."""
    signal: int | None = None
    """What ended it."""


@dataclass(frozen=True, slots=True)
class Running:
    """A program of a measure, at its place."""

    program: Program
    """As it was written."""
    agent: Agent
    """Of the kernel."""
    home: Home
    """Where it runs."""
    id: str
    """Of its process."""
    argv: tuple[str, ...]
    """What is run."""
    environment: dict[str, str]
    """Added to its environment."""
    fill: Callable[[str], str]
    """Puts addresses in the place of names."""
    part: str = ""
    """Name of its measure where others are taken at once with it; empty: it is alone."""

    @property
    def name(self) -> str:
        """Return what it is called in messages."""
        return name_of(self.program)


@contextmanager
def placed(site: Site, measure: CommandMeasure, program: Program, name: str) -> Iterator[Running]:
    """Give a program a folder and its words; in the end it does not run any more, and the folder is gone.

    Raises:
        AgentError: the agent refused it, or is gone.
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
        Failed: it is not there, ended before, or was not ready in time.
        AgentLost: the agent is gone.
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
    """Wait for a program to end.

    Raises:
        Failed: it went on beyond its time; it is killed.
        AgentLost: the agent is gone.
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
    """Stop a server that should still run.

    Raises:
        Failed: it ended by itself, and not well.
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
    """Kill what programs of a measure left behind by forking away from their groups; return how many that were.

    `part` names the measure where others are taken at once with it.
    """
    with suppress(AgentError, ValueError):
        return int(agent.run(("sh", "-c", SWEEP, MARK, _mark(agent, part))).stdout)
    return 0


def how(ended: ProcessEnded) -> str:
    """Return how a program ended: status 1, signal 9."""
    return f"signal {ended.signal}" if ended.exit_status is None else f"status {ended.exit_status}"


def written(ended: ProcessEnded) -> str:
    """Return the end of what a program wrote: its errors, else its output."""
    return (ended.stderr.strip() or ended.stdout.strip())[-SHOWN:]


def record(running: Running, ended: ProcessEnded) -> CommandRecord:
    """Return the line of commands.jsonl of a program that ran."""
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
    """Return what the agent itself waits for."""
    if ready.listens is not None:
        return {"kind": "listening", "protocol": ready.protocol, "port": ready.listens}
    return None if ready.prints is None else {"kind": "output", "contains": ready.prints}


def _not_begun(running: Running, error: Refused, within_ms: int) -> Failure:
    """Return why a program was not ready, as the agent says it."""
    seen = decode(
        Seen, error.data or {}, Phrase("agent.refusal-of", method="process.start"), agent=running.agent.name
    )
    where = {"program": running.name, "machine": running.program.on}
    said = seen.output.strip()[-SHOWN:]
    if error.is_deadline:
        return _not_ready(running, within_ms, said)
    if seen.exit_status is None and seen.signal is None:
        return ProgramFault(code="program-not-started", **where, said=str(error))
    ended = f"signal {seen.signal}" if seen.exit_status is None else f"status {seen.exit_status}"
    return ProgramEndedEarly(**where, ended=ended, said=said)


def _not_ready(running: Running, within_ms: int, said: str) -> ProgramNotReady:
    return ProgramNotReady(
        program=running.name, machine=running.program.on, waited_ns=within_ms * 1_000_000, said=said
    )


def _stopped(running: Running) -> ProcessEnded:
    asked: dict[str, Json] = {"id": running.id, "grace_ms": GRACE_MS}
    return running.agent.ask(ProcessEnded, "process.stop", asked, GRACE_MS / 1000 + REPLY_SLACK_S)


def _quietly(agent: Agent, method: str, params: dict[str, Json]) -> None:
    """Take something away that may be gone already."""
    with suppress(AgentError):
        agent.call(method, params)
