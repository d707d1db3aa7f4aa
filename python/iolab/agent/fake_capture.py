"""Captures in memory, for a fake agent: one frame passes each."""

from collections.abc import Callable
from dataclasses import dataclass, field

from iolab.agent.fake_traffic import TrafficRefusal
from iolab.agent.messages import Json
from iolab.clock import VirtualClock


@dataclass
class FakeCaptures:
    """Captures by their names."""

    clock: VirtualClock
    """When they begin and end."""
    running: dict[str, Json] = field(default_factory=dict)
    """What each was asked to keep."""
    lost_frames: int = 0
    """Of every capture."""
    file: str = "Cg0NCg=="
    """Of every capture, in base 64."""

    def handlers(self) -> dict[str, Callable[[dict[str, Json]], Json]]:
        """Return the methods of captures."""
        return {
            "capture.start": self._start,
            "capture.stop": self._stop,
            "capture.read": self._read,
            "capture.close": self._close,
        }

    def _start(self, params: dict[str, Json]) -> Json:
        if params["id"] in self.running:
            seen = {"seen": params["id"]}
            raise TrafficRefusal(-32602, "a capture of that id is there; close it first", seen)
        self.running[params["id"]] = {**params, "begin_ns": self.clock.now_ns()}
        return {"begin_ns": self.clock.now_ns()}

    def _stop(self, params: dict[str, Json]) -> Json:
        asked = self._find(params)
        counts = dict.fromkeys(("overwritten_frames", "filtered_frames", "cut_frames"), 0)
        return counts | {
            "kept_frames": 1,
            "lost_frames": self.lost_frames,
            "total_bytes": 4,
            "begin_ns": asked["begin_ns"],
            "end_ns": self.clock.now_ns(),
        }

    def _read(self, params: dict[str, Json]) -> Json:
        self._find(params)
        return {"packed": self.file, "total_bytes": 4}

    def _close(self, params: dict[str, Json]) -> Json:
        self._find(params)
        del self.running[params["id"]]
        return {}

    def _find(self, params: dict[str, Json]) -> dict[str, Json]:
        name = params["id"]
        if name not in self.running:
            raise TrafficRefusal(-32004, f"there is no capture '{name}'", {"id": name})
        found: dict[str, Json] = self.running[name]
        return found
