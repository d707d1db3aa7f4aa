"""What each machine with a kernel of its own is: stored when a session first meets it."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from iolab.agent.client import Agent
from iolab.agent.messages import Json
from iolab.files import write_whole
from iolab.image.cache import Cache, default_cache
from iolab.lab.kernels import HERE
from iolab.run.agents import Agents
from iolab.run.guests.guests import Guests
from iolab.run.hosts.host_facts import asked_programs, machine_facts
from iolab.store.folder import RunFolder


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
