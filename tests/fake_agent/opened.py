"""Base of a fake agent's instruments: each is started under a name, stopped, read and closed."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from tests.fake_agent.traffic import TrafficRefusal

from iolab.agent.messages import Json
from iolab.clock import VirtualClock


@dataclass
class FakeOpened(ABC):
    """Instruments of one kind, by name."""

    noun: ClassVar[str]
    """Name of the kind; the prefix of its methods."""
    clock: VirtualClock
    """Clock for begin and end."""
    running: dict[str, Json] = field(default_factory=dict)
    """Parameters of each running instrument."""

    def handlers(self) -> dict[str, Callable[[dict[str, Json]], Json]]:
        """Return the methods by name."""
        return {
            f"{self.noun}.start": self._start,
            f"{self.noun}.stop": lambda params: self.stopped(self._find(params)),
            f"{self.noun}.read": self._read,
            f"{self.noun}.close": self._close,
        }

    def started(self, params: dict[str, Json]) -> dict[str, Json]:
        """Return the result of a start, without its time."""
        return {}

    @abstractmethod
    def stopped(self, asked: dict[str, Json]) -> dict[str, Json]:
        """Return the result of a stop."""

    @abstractmethod
    def content(self) -> dict[str, Json]:
        """Return the result of a read."""

    def _start(self, params: dict[str, Json]) -> Json:
        name = params["id"]
        if name in self.running:
            refused = f"a {self.noun} of that id is there; close it first"
            raise TrafficRefusal(-32602, refused, {"seen": name})
        begin = {"begin_ns": self.clock.now_ns()}
        self.running[name] = {**params, **begin}
        return {**self.started(params), **begin}

    def _read(self, params: dict[str, Json]) -> Json:
        self._find(params)
        return self.content()

    def _close(self, params: dict[str, Json]) -> Json:
        self._find(params)
        del self.running[params["id"]]
        return {}

    def _find(self, params: dict[str, Json]) -> dict[str, Json]:
        name = params["id"]
        if name not in self.running:
            raise TrafficRefusal(-32004, f"there is no {self.noun} '{name}'", {"id": name})
        found: dict[str, Json] = self.running[name]
        return found
