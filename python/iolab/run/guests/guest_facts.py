"""What guests are. What an image's kernel can make, and its programs, are asked of one guest: images never change."""

import contextlib
import json
from pathlib import Path

from iolab.agent.client import Agent
from iolab.agent.messages import Json
from iolab.files import write_whole
from iolab.image.cache import Cache, default_cache
from iolab.run.hosts.host_facts import asked_programs, machine_facts

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
