"""The current lab: change it to the next lab through the agents, read it back, take it down.

lab/ determines the resources and their order; this module executes them, each through the agent of its kernel. The
agent journals every undo before the change, so the controller refers to undos by their journal keys. Resources in a
guest disappear with the guest.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from iolab.agent.client import UNDO_DEADLINE_S, AgentLost, Refused
from iolab.agent.decoding import BadAnswer
from iolab.errors import AgentError, IolabError, LabError
from iolab.lab.actions import CreateNetns, Expectation, PinNapi, StartGuest
from iolab.lab.kernels import HERE
from iolab.lab.resources import Resource, dependents, difference, settling_ns, started, undo_keys, waves
from iolab.lab.resources import guests as started_by
from iolab.locale import Phrase
from iolab.messages.failures import Difference
from iolab.results.trial import CommandRecord
from iolab.run.agents import Agents
from iolab.run.guests.guests import Guests
from iolab.run.lab.actions import ActionRunner
from iolab.run.lab.readback import Reader, mismatch
from iolab.run.lab.tuning import Interrupts, NapiThreads, Processors

Log = Callable[[Sequence[CommandRecord]], None]


class StandingLab:
    """The existing resources on all kernels of a lab."""

    def __init__(
        self,
        agents: Agents,
        log: Log,
        guests: Guests | None = None,
        pause: Callable[[float], None] = time.sleep,
        starting: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> None:
        self._pause = pause
        self._starting = starting
        self._agents = agents
        self._log = log
        self._standing: tuple[Resource, ...] = ()
        self._undoing: dict[str, list[CommandRecord]] = {}
        self._started: dict[str, tuple[str, str]] = {}
        self.guests = guests or Guests(agents)
        """The running virtual machines."""
        self.napi = NapiThreads(agents)
        """The NAPI threads."""
        self._interrupts = Interrupts(agents)
        self._processors = Processors(agents)
        self._reader = Reader(agents, self.guests, self._interrupts, self._processors)
        self._runner = ActionRunner(
            agents, self.guests, self.napi, self._interrupts, self._processors, self._reader
        )

    def change_to(self, wanted: tuple[Resource, ...]) -> None:
        """Change to the wanted lab with minimal changes; wait for NICs that do not report when they are ready.

        Raises:
            LabError: a command failed, or a kernel was lost; everything has been undone.
            AgentLost: the agent of the local host was lost.
        """
        change = difference(self._standing, wanted)
        try:
            self._undo(change.undo)
            if names := [name for resource in change.do for name in started_by(resource)]:
                self._starting(names)
            for wave in waves(change.do):
                self._do_together(wave, change.in_place)
        except (LabError, AgentError) as error:
            if self._agents.here.gone:
                raise
            try:
                self._standing = (*self._standing, *(one for one in change.do if one not in self._standing))
                self.take_down()
            except LabError as left:
                raise LabError(Phrase("run.error-left-behind", error=error, left_behind=left)) from error
            raise LabError(str(error)) from error
        self._standing = wanted
        if settling := settling_ns(change.do, wanted):
            self._pause(settling / 1e9)

    def mismatches(self) -> list[Difference]:
        """Read back every applied level; return the differences."""
        pins = [
            (resource.kernel, action)
            for resource in self._standing
            for action in resource.actions
            if isinstance(action, PinNapi)
        ]
        return [*(difference for _, difference in self.mismatched()), *self.napi.moved(pins)]

    def mismatched(self) -> list[tuple[Expectation, Difference]]:
        """Read back every applied level; return the unmet expectations, each with the difference."""
        expected = [(resource.kernel, one) for resource in self._standing for one in resource.expect]
        texts = self._reader.read((kernel, one.reading.source) for kernel, one in expected)
        found = ((one, mismatch(one, texts[kernel, one.reading.source])) for kernel, one in expected)
        return [(one, difference) for one, difference in found if difference]

    def take_down(self, hung: Collection[str] = ()) -> None:
        """Undo everything: guests stop first, then namespaces are removed with everything in them.

        `hung` has the guests with processes that wait forever; these guests are powered off without an undo.

        Raises:
            LabError: something could not be undone.
        """
        standing, self._standing = self._standing, ()
        troubles = self._undo_first(standing)
        self.guests.stop(self.guests.running, hung)
        self._stop(list(self._started))
        self.napi.forget()
        self._interrupts.forget()
        self._processors.forget()
        for kernel in reversed(list(self._agents)):
            troubles += self._clear(kernel, standing)
        if troubles:
            raise LabError(Phrase("run.lab-not-taken-down", count=len(troubles), first=troubles[0]))
        planned = [resource.key for resource in difference(standing, ()).undo]
        begun = [key for key in reversed(self._undoing) if key not in planned]
        self._log_undone([*begun, *planned])

    def _undo_first(self, standing: Sequence[Resource]) -> list[str]:
        """Undo resources with effects beyond their namespace; return the errors."""
        running = self.guests.running
        try:
            self._undo_keys([one for one in standing if one.undone_first and one.kernel not in running])
        except LabError as error:
            return [str(error)]
        except AgentLost:
            if self._agents.here.gone:
                raise
        return []

    def _clear(self, kernel: str, standing: Sequence[Resource]) -> list[str]:
        """Undo everything on a kernel; return the errors. The agent of a lost kernel undoes its changes without a
        request."""
        own = (resource for resource in reversed(standing) if resource.kernel == kernel)
        names = [action.name for one in own for action in one.actions if isinstance(action, CreateNetns)]
        try:
            agent = self._agents.of(kernel)
            for pending in [agent.begin("netns.delete", {"name": name}) for name in names]:
                with contextlib.suppress(
                    Refused
                ):  # an agent that cannot be reached is handled or reported below
                    pending.result(UNDO_DEADLINE_S)
            report = agent.undo()
        except AgentLost:
            if kernel == HERE or self._agents.here.gone:
                raise
            self._agents.drop(kernel)
            return []
        except BadAnswer as error:
            return [str(error)]
        return [f"{failure.undo_key}: {failure.reason}" for failure in report.failed]

    # Undo and create ------------------------------------------------------------------------------------

    def _undo(self, resources: Sequence[Resource]) -> None:
        """Undo resources; resources in stopped guests disappear with the guests, and resources on the guests' taps are
        undone first."""
        ending = [
            action.guest.name
            for resource in resources
            for action in resource.actions
            if isinstance(action, StartGuest)
        ]
        left = [resource for resource in resources if resource.kernel not in ending]
        self._stop([name for resource in left for name in started(resource)])
        carried = dependents(resources, [f"vm:{name}" for name in ending])
        self._undo_keys([resource for resource in left if resource.key in carried])
        self.guests.stop(ending)
        self._undo_keys([resource for resource in left if resource.key not in carried])
        self._log_undone([resource.key for resource in resources])

    def _log_undone(self, keys: Sequence[str]) -> None:
        """Log the undo commands of resources; resources on a lost kernel disappeared with the kernel."""
        made = [one for key in keys for one in reversed(self._undoing.pop(key, []))]
        back = [one for one in made if one.undo is not None and one.kernel in self._agents]
        self._log([_taken_back(one) for one in back])

    def _undo_keys(self, resources: Sequence[Resource]) -> None:
        for kernel in reversed(list(self._agents)):
            own = [resource for resource in resources if resource.kernel == kernel]
            keys = [key for one in own for key in self._keys_of(one)]
            if not keys:
                continue
            report = self._agents.of(kernel).undo(keys=keys)
            if report.failed:
                raise LabError(
                    Phrase(
                        "run.undoing-failed", key=report.failed[0].undo_key, reason=report.failed[0].reason
                    )
                )

    def _keys_of(self, resource: Resource) -> tuple[str, ...]:
        """Return all journal keys of a resource, including those determined when it was created."""
        found = (*self._interrupts.undo_keys(resource), *self._processors.undo_keys(resource))
        return (*undo_keys(resource), *found)

    def _stop(self, wanted: Sequence[str]) -> None:
        """Stop the running devices and emulated links in the list; missing ones are ignored."""
        for name in [name for name in wanted if name in self._started]:
            kernel, method = self._started.pop(name)
            with contextlib.suppress(Refused, AgentLost):
                self._agents.of(kernel).call(method, {"id": name})

    def _do_together(self, wave: Sequence[Resource], in_place: frozenset[str]) -> None:
        """Create independent resources in parallel: the first action of every resource, then the second action, and so
        on.

        If one action fails, the other actions in progress are awaited, because nothing may be created after the undo
        has begun.
        """
        records: list[CommandRecord] = []
        failures: list[IolabError] = []
        try:
            for index in range(max(len(resource.actions) for resource in wave)):
                present = [resource for resource in wave if index < len(resource.actions)]
                self._started |= {
                    name: (one.kernel, method) for one in present for name, method in started(one).items()
                }
                begun = [
                    self._runner.begin(one, one.actions[index], in_place=one.key in in_place)
                    for one in present
                ]
                for doing in begun:
                    try:
                        done = doing.finish()
                        records += done
                        self._undoing.setdefault(doing.resource.key, []).extend(done)
                    except (LabError, BadAnswer) as error:
                        failures.append(error)
                if failures:
                    raise failures[0]
        finally:
            self._log(records)


def _taken_back(made: CommandRecord) -> CommandRecord:
    """Return the record of the undo of a command."""
    return replace(
        made,
        argv=made.undo or (),
        netns=made.undo_netns,
        undo=None,
        undo_netns=None,
        exit_status=None,
        duration_ns=0,
        notes=(),
    )
