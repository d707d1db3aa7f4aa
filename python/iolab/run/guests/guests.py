"""The virtual machines of a lab: which there are, begun and ended, together and after their parents; what each is.

What a guest is, is decided in lab/; where image and hypervisor lie, in hypervisors.py; how one is brought up, in
start.py. The channel to a guest's agent, its console and its monitor are relays of the parent's agent, so a guest in
a guest is a guest as any other. Machines with a kernel of their own are described when a session first meets them.
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
"""An emulated guest takes 3 s on a calm host, and 10 with four others on two CPUs; on a busy one many times as long."""
TOGETHER = 16
"""Guests that are started at the same time."""
MOST_IN_VAIN = 3
"""How often the same guest is started in a row without coming up; each time may take a minute."""
OF_IMAGES = ("features", "programs")
"""The facts that are an image's: to try and ask them takes an emulated guest longer than to boot."""
FILE = "facts.json"
"""Keeps them in the image's folder."""


class GuestFacts:
    """The facts of guests, and what is known of their images."""

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = cache or default_cache()
        self._known: dict[str, dict[str, Json]] = {}

    def read(self, agent: Agent, image: str) -> dict[str, Json]:
        """Return the facts of a guest; `image`: the digest of what it was started from; empty: not known.

        Raises AgentError.
        """
        known = self._of_image(image)
        facts = machine_facts(agent, known)
        if known is None and image and None not in facts["features"].values():  # all of them could be tried
            self._keep(image, {name: facts[name] for name in OF_IMAGES})
        return facts

    def _of_image(self, image: str) -> dict[str, Json] | None:
        """Return what is known, if it is all that is asked today."""
        if image not in self._known and image:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                stored = json.loads(self._file(image).read_text(encoding="utf-8"))
                self._known[image] = {name: dict(stored[name]) for name in OF_IMAGES}
        known = self._known.get(image)
        return known if known is not None and set(asked_programs()) <= set(known["programs"]) else None

    def _keep(self, image: str, told: dict[str, Json]) -> None:
        self._known[image] = told
        if self._cache.find(image) is not None:
            with contextlib.suppress(OSError):  # what belongs to somebody else is not ours to write to
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
        """What guests that were ended could not undo, a sentence each."""
        self._workers = ThreadPoolExecutor(TOGETHER, "guest")

    @property
    def running(self) -> tuple[str, ...]:
        """Names of the guests that were started, each after its parent."""
        return tuple(self._running)

    def use(self, name: str) -> GuestUse | None:
        """Return what a guest was started with; None: it does not run."""
        found = self._running.get(name)
        return None if found is None else found.use

    def image_of(self, name: str) -> str:
        """Return the digest of the image of a guest, be it on its parent's disks; empty: not known."""
        found = self._running.get(name)
        if found is None:
            return ""
        return found.launch.image if found.launch.packages else self.image_of(found.parent)

    def started(self, name: str) -> RunningGuest | None:
        """Return a guest that was started."""
        return self._running.get(name)

    def block_statistics(self, name: str) -> Json:
        """Return what a guest's disks did, as its hypervisor counts it; None: it does not answer."""
        running = self._running[name]
        try:
            return disk_statistics(self._agents.of(running.parent), running)
        except (AgentError, MonitorError):
            return None

    # Beginning and end ------------------------------------------------------------------------------------

    def start(self, guest: Guest, parent: str) -> "Future[tuple[CommandRecord, ...]]":
        """Begin to start a guest; the result, the commands that did it, comes when its agent answers.

        The result raises LabError where it does not: what the hypervisor or the console said.
        """
        return self._workers.submit(self._try, guest, parent)

    def stop(self, names: Iterable[str], hung: Collection[str] = ()) -> None:
        """End guests, and those that run on them; each undoes what it can before, and tells what it cannot.

        Those that are `hung` are not asked to.
        """
        ending = set(names)
        for name, running in self._running.items():  # each after its parent
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
        """Let guests, each given before its parent, undo everything: together, but a parent after its children."""
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
        """Start a guest, unless it was seen often enough that this one does not come up."""
        times = self._in_vain.get(guest, 0)
        if times == MOST_IN_VAIN:
            raise LabError(Phrase("run.guest-not-tried-again", guest=guest.name, times=times))
        try:
            records = self._start(guest, parent)
        except AgentLost:
            raise  # the parent's: no fault of this guest
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
        """Begin to read how a guest is and where its threads may run, as lab.shown.GuestThreads reads it."""
        return self._workers.submit(self._state, name)

    def pin(self, action: PinGuest) -> "Future[tuple[CommandRecord, ...]]":
        """Begin to put a guest's threads on CPUs of its parent."""
        return self._workers.submit(self._pin, action)

    def _state(self, name: str) -> str | None:
        running = self._running.get(name)
        return None if running is None else read_state(self._agents.of(running.parent), running)

    def _pin(self, action: PinGuest) -> tuple[CommandRecord, ...]:
        running = self._running[action.guest]
        return pin_threads(self._agents.of(running.parent), running, action)


ALIVE_DEADLINE_S = 3.0
"""An emulated guest on a busy host answers within a second; a dead one is not waited for longer [s]."""
UNDO_DEADLINE_S = 15.0
"""Under emulation an undo takes up to half a second; the end does not wait for ever [s]."""
SHOWN = 3
"""Failures that are reported in full."""


def undo_before_end(agent: Agent) -> Text:
    """Let a guest that is about to end undo everything; return what it could not, in words, or nothing.

    Of one that is gone, or does not answer, nothing is known, and nothing is waited for.
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
    """The descriptions in a run's folder."""

    def __init__(self, folder: RunFolder, agents: Agents, hosts: Mapping[str, Mapping[str, Json]]) -> None:
        """`hosts`: the facts of other hosts that were read before the run, by machine."""
        self._folder, self._agents, self._hosts = folder, agents, hosts
        self._guest_facts = GuestFacts()
        self._described = {HERE}

    def store(self, guests: Guests) -> None:
        """Describe the machines that have not been described yet. Raises AgentError."""
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
