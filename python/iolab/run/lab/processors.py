"""Governor and turbo of a computer's processors: their files found, written, read back, and remembered for their undo.

The agent journals each file's original before it writes another. Files are those of the kernel's cpufreq: a governor
for each policy; `intel_pstate/no_turbo`, which says the contrary, or `boost`.
"""

from collections.abc import Iterable

from iolab.agent.client import Agent, Pending
from iolab.agent.messages import SettingRead
from iolab.errors import LabError
from iolab.lab.actions import TuneProcessors, TypedCommand
from iolab.lab.commands import Found, commands_of, file_words
from iolab.lab.hosts.tuning import BOOST, CONTRARY, FILES, NO_TURBO
from iolab.lab.readings import ProcessorState
from iolab.lab.resources import Resource
from iolab.run.agents import Agents
from iolab.run.lab.interrupts import Writes


class Processors:
    """Those of the lab that stands."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._found: dict[tuple[str, str], tuple[str, ...]] = {}

    def tune(self, wanted: TuneProcessors, kernel: str) -> tuple[tuple[TypedCommand, ...], Writes]:
        """Begin to let all processors of a kernel run as wanted.

        Raises:
            LabError: the kernel has no file for it.
        """
        agent = self._agents.of(kernel)
        paths = _paths(agent, wanted.what)
        if not paths:
            raise LabError(f"setting {wanted.what} to {wanted.value}: this kernel sets no such thing")
        self._found[kernel, wanted.what] = paths
        return commands_of(wanted, Found(paths=paths)), Writes(agent, file_words(wanted, paths))

    def undo_keys(self, resource: Resource) -> list[str]:
        """Return the journal keys of the originals that a resource changed; they are known no more."""
        tuned = [action for action in resource.actions if isinstance(action, TuneProcessors)]
        paths = [path for action in tuned for path in self._found.pop((resource.kernel, action.what), ())]
        return [f"setting::{path}" for path in paths]

    def forget(self) -> None:
        """Know none any more: all is undone."""
        self._found.clear()

    def state(self, kernel: str, what: ProcessorState) -> "States":
        """Begin to read how the processors of a kernel run."""
        agent = self._agents.of(kernel)
        paths = _paths(agent, what.what)
        return States(paths, [agent.begin("setting.read", {"path": path}) for path in paths])


class States:
    """Files that are being read."""

    def __init__(self, paths: Iterable[str], pending: Iterable[Pending]) -> None:
        self._pending = dict(zip(paths, pending, strict=True))

    def result(self, deadline_s: float) -> str:
        """Return the words that differ from each other; one, where all processors run in the same way."""
        words = [_shown(path, one.read(SettingRead, deadline_s).value) for path, one in self._pending.items()]
        return " ".join(dict.fromkeys(words))


def _shown(path: str, value: str) -> str:
    """Return what a file says, in the words that set it."""
    if path.endswith("scaling_governor"):
        return value
    words = CONTRARY if path == NO_TURBO else BOOST
    return next((word for word, written in words.items() if written == value.strip()), value)


def _paths(agent: Agent, what: str) -> tuple[str, ...]:
    """Return the files that say it on a kernel: all governors, or the one for turbo that its driver has."""
    found = agent.run(("sh", "-c", f"ls -d {FILES[what]} 2>/dev/null || true")).stdout.split()
    return tuple(found) if what == "governor" else tuple(sorted(found, key=lambda path: path != NO_TURBO)[:1])
