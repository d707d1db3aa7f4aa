"""The virtual machines of a lab: started and stopped in parallel, parents first.

lab/ determines the parameters of guests, hypervisors.py finds images and hypervisors, and start.py starts one guest.
The channel to a guest's agent, its console and its monitor are relays of the parent's agent, so nested guests need no
special treatment. The facts of machines with their own kernel are stored when a session first reaches them.
"""

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from pathlib import Path

from iolab.agent.client import Agent, AgentLost
from iolab.agent.messages import Json
from iolab.errors import AgentError, IolabError, LabError, UnsupportedError
from iolab.files import write_whole
from iolab.image.cache import Cache, default_cache
from iolab.lab.actions import PinGuest, StartGuest
from iolab.lab.commands import Found, commands_of
from iolab.lab.guests.guest import Guest
from iolab.lab.kernels import HERE
from iolab.locale import Phrase, Text
from iolab.results.trial import CommandRecord, GuestUse
from iolab.run.agents import Agents
from iolab.run.guests.hypervisors import Hypervisors
from iolab.run.guests.qemu_monitor import MonitorError
from iolab.run.guests.running_guest import RunningGuest, disk_statistics, pin_threads, read_state, record_of
from iolab.run.guests.start import autopsy, connect, end, launched, patience_s
from iolab.run.hosts.host_facts import asked_programs, machine_facts
from iolab.store.folder import RunFolder, packages_digest

BOOT_DEADLINE_S = 120.0
"""Time limit of a boot; an emulated guest takes 3 s on an idle host, 10 s with four others on two CPUs, and much
longer on a busy host."""
TOGETHER = 16
"""Maximum number of guests that are started in parallel."""
MOST_IN_VAIN = 3
"""Maximum number of consecutive failed starts of the same guest; each may take a minute."""
OF_IMAGES = ("features", "programs")
"""Facts that depend only on the image; they are stored, because an emulated guest takes longer to read them than to
boot."""
FILE = "facts.json"
"""File in the image's folder with the facts that depend only on the image."""


class GuestFacts:
    """The facts of guests, and stored facts of their images."""

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = cache or default_cache()
        self._known: dict[str, dict[str, Json]] = {}

    def read(self, agent: Agent, image: str) -> dict[str, Json]:
        """Return the facts of a guest; `image` is the digest of its image, or empty if the image is unknown.

        Raises AgentError.
        """
        known = self._of_image(image)
        facts = machine_facts(agent, known)
        # Every feature test could be run.
        if known is None and image and None not in facts["features"].values():
            self._keep(image, {name: facts[name] for name in OF_IMAGES})
        return facts

    def _of_image(self, image: str) -> dict[str, Json] | None:
        """Return the stored facts of an image if they include all facts that this version of iolab needs."""
        if image not in self._known and image:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                stored = json.loads(self._file(image).read_text(encoding="utf-8"))
                self._known[image] = {name: dict(stored[name]) for name in OF_IMAGES}
        known = self._known.get(image)
        return known if known is not None and set(asked_programs()) <= set(known["programs"]) else None

    def _keep(self, image: str, told: dict[str, Json]) -> None:
        self._known[image] = told
        if self._cache.find(image) is not None:
            with contextlib.suppress(OSError):  # a file or folder of a different user is not written
                write_whole(self._file(image), json.dumps(told))

    def _file(self, image: str) -> Path:
        return self._cache.images / image / FILE


class Guests:
    """The guests of a lab."""

    def __init__(
        self,
        agents: Agents,
        hypervisors: Hypervisors | None = None,
        *,
        boot_deadline_s: float = BOOT_DEADLINE_S,
    ) -> None:
        self._agents = agents
        self._hypervisors = hypervisors or Hypervisors(agents)
        self._boot_deadline_s = boot_deadline_s
        self._running: dict[str, RunningGuest] = {}
        self._in_vain: dict[Guest, int] = {}
        self.troubles: list[Text] = []
        """Errors in the undo of stopped guests, with one sentence per error."""
        self._workers = ThreadPoolExecutor(TOGETHER, "guest")

    @property
    def running(self) -> tuple[str, ...]:
        """Names of the started guests, each after its parent."""
        return tuple(self._running)

    def use(self, name: str) -> GuestUse | None:
        """Return the data about a running guest; None: the guest is not running."""
        found = self._running.get(name)
        return None if found is None else found.use

    def image_of(self, name: str) -> str:
        """Return the digest of a guest's image, even if the image is on its parent's disks; empty: unknown."""
        found = self._running.get(name)
        if found is None:
            return ""
        return found.launch.image if found.launch.packages else self.image_of(found.parent)

    def started(self, name: str) -> RunningGuest | None:
        """Return a started guest."""
        return self._running.get(name)

    def block_statistics(self, name: str) -> Json:
        """Return the hypervisor's statistics of a guest's disks; None: the hypervisor does not answer."""
        running = self._running[name]
        try:
            return disk_statistics(self._agents.of(running.parent), running)
        except (AgentError, MonitorError):
            return None

    # Start and stop ------------------------------------------------------------------------------------

    def start(self, guest: Guest, parent: str) -> "Future[tuple[CommandRecord, ...]]":
        """Begin to start a guest; the returned result has the commands, once the guest's agent has answered.

        The result raises LabError, with the output of the hypervisor or console, if the start fails.
        """
        return self._workers.submit(self._try, guest, parent)

    def stop(self, names: Iterable[str], hung: Collection[str] = ()) -> None:
        """Stop guests and the guests on them; each undoes its changes first and reports errors.

        Guests in `hung` are stopped without an undo.
        """
        ending = set(names)
        for name, running in self._running.items():  # guests are listed after their parents
            if running.parent in ending:
                ending.add(name)
        chosen = [self._running[name] for name in reversed(self._running) if name in ending]
        self._undo_in([one for one in chosen if one.guest.name not in hung])
        for running in chosen:
            self._agents.drop(running.guest.name)
        left = [one for one in chosen if one.parent not in ending and one.parent in self._agents]
        end([(self._agents.of(one.parent), one) for one in left])
        for running in chosen:
            del self._running[running.guest.name]

    def _undo_in(self, chosen: Sequence[RunningGuest]) -> None:
        """Undo all changes in guests, in parallel, but in a parent only after its children; the list has children
        first."""
        waiting: dict[str, Future[Text]] = {}

        def undo(running: RunningGuest, children: Sequence[Future[Text]]) -> Text:
            wait(children)
            name = running.guest.name
            return undo_before_end(self._agents.of(name)) if name in self._agents else ""

        for running in chosen:
            name = running.guest.name
            children = [waiting[one.guest.name] for one in chosen if one.parent == name]
            waiting[name] = self._workers.submit(undo, running, children)
        self.troubles += [told for pending in waiting.values() if (told := pending.result())]

    def _try(self, guest: Guest, parent: str) -> tuple[CommandRecord, ...]:
        """Start a guest, unless the same guest has repeatedly failed to start."""
        times = self._in_vain.get(guest, 0)
        if times == MOST_IN_VAIN:
            raise LabError(Phrase("run.guest-not-tried-again", guest=guest.name, times=times))
        try:
            records = self._start(guest, parent)
        except AgentLost:
            raise  # the parent caused the failure, not this guest
        except IolabError as error:
            self._in_vain[guest] = times + 1
            raise LabError(Phrase("run.guest-did-not-start", guest=guest.name, reason=error)) from error
        self._in_vain.pop(guest, None)
        return records

    def _start(self, guest: Guest, parent: str) -> tuple[CommandRecord, ...]:
        agent = self._agents.of(parent)
        launch = self._hypervisors.prepare(guest, parent)
        running = self._running[guest.name] = launched(agent, guest, parent, launch)
        begin_ns = agent.ping()
        deadline_s = patience_s(running, self._boot_deadline_s)
        try:
            child = connect(agent, running, deadline_s)
        except (AgentError, LabError, UnsupportedError) as error:
            why = autopsy(agent, running, error, deadline_s)
            del self._running[guest.name]
            raise LabError(why) from error
        running.use = self._use(running, agent.ping() - begin_ns)
        self._agents.add(guest.name, child)
        commands = commands_of(StartGuest(guest), Found(start=running.start))
        records = [record_of(one, machine=guest.name, kernel=parent, exit_status=0) for one in commands]
        return (*records[:-1], replace(records[-1], duration_ns=running.use.boot_ns))

    def _use(self, running: RunningGuest, boot_ns: int) -> GuestUse:
        launch, above = running.launch, self.use(running.parent)
        return GuestUse(
            engine=running.guest.engine,
            on=running.parent,
            accel=launch.accel,
            untold=str(launch.untold) if launch.accel == "tcg" else "",
            hypervisor=launch.version,
            image=launch.image,
            packages=packages_digest(launch.packages),
            emulated=launch.accel == "tcg" or (above is not None and above.emulated),
            boot_ns=boot_ns,
            polling=tuple(running.switches),
        )

    # Threads ----------------------------------------------------------------------------------------------

    def state(self, name: str) -> "Future[str | None]":
        """Begin to read the state of a guest and the affinities of its threads, in the format of `GuestThreads`."""
        return self._workers.submit(self._state, name)

    def pin(self, action: PinGuest) -> "Future[tuple[CommandRecord, ...]]":
        """Begin to pin a guest's threads to CPUs of its parent."""
        return self._workers.submit(self._pin, action)

    def _state(self, name: str) -> str | None:
        running = self._running.get(name)
        return None if running is None else read_state(self._agents.of(running.parent), running)

    def _pin(self, action: PinGuest) -> tuple[CommandRecord, ...]:
        running = self._running[action.guest]
        return pin_threads(self._agents.of(running.parent), running, action)


ALIVE_DEADLINE_S = 3.0
"""Time limit for an answer; an emulated guest on a busy host answers within a second [s]."""
UNDO_DEADLINE_S = 15.0
"""Time limit of an undo, which takes up to half a second under emulation [s]."""
SHOWN = 3
"""Maximum number of failures that are reported in full."""


def undo_before_end(agent: Agent) -> Text:
    """Let a guest undo all changes before it is stopped; return its errors as text, or an empty text.

    A guest that is gone or does not answer is skipped.
    """
    if agent.gone:
        return ""
    try:
        agent.call("agent.ping", {}, ALIVE_DEADLINE_S)
        failed = agent.undo(deadline_s=UNDO_DEADLINE_S).failed
    except AgentError:
        return ""
    if not failed:
        return ""
    said: list[Text] = [
        Phrase("errors.failed-with-reason", what=failure.undo_key, reason=failure.reason)
        for failure in failed[:SHOWN]
    ]
    if len(failed) > SHOWN:
        said.append(Phrase("run.and-more", count=len(failed) - SHOWN))
    return Phrase("run.guest-could-not-undo", guest=agent.name, said=said)


class MachineDescriptions:
    """The stored descriptions of machines in a run folder."""

    def __init__(self, folder: RunFolder, agents: Agents, hosts: Mapping[str, Mapping[str, Json]]) -> None:
        """Create the store; `hosts` has the facts of other hosts that were read before the run, by machine."""
        self._folder, self._agents, self._hosts = folder, agents, hosts
        self._guest_facts = GuestFacts()
        self._described = {HERE}

    def store(self, guests: Guests) -> None:
        """Store the facts of machines that are not stored yet. Raises AgentError."""
        for kernel in self._agents:
            if kernel not in self._described:
                self._folder.write_machine(kernel, self._description(kernel, guests))
                if (guest := guests.started(kernel)) and guest.launch.packages:
                    self._folder.write_packages(guest.launch.packages)
                self._described.add(kernel)

    def _description(self, kernel: str, guests: Guests) -> dict[str, Json]:
        agent, use = self._agents.of(kernel), guests.use(kernel)
        if use is not None:
            return {**self._guest_facts.read(agent, guests.image_of(kernel)), "guest": asdict(use)}
        return {**(self._hosts.get(kernel) or machine_facts(agent)), "guest": None}
