"""Watches in memory, for a fake agent: nothing passes what they look at."""

from collections.abc import Callable
from dataclasses import dataclass, field

from iolab.agent.fake_traffic import TrafficRefusal
from iolab.agent.messages import Json
from iolab.clock import VirtualClock

NOTHING: Json = {"count": 0, "sum": 0, "min": None, "max": None, "above": 0, "buckets": []}
"""A histogram without values."""


@dataclass
class FakeWatches:
    """Watches by their names."""

    clock: VirtualClock
    """When they begin and end."""
    running: dict[str, Json] = field(default_factory=dict)
    """What each was asked to look at."""

    def handlers(self) -> dict[str, Callable[[dict[str, Json]], Json]]:
        """Return the methods of watches."""
        return {
            "watch.start": self._start,
            "watch.stop": self._stop,
            "watch.read": self._read,
            "watch.close": self._close,
        }

    def _start(self, params: dict[str, Json]) -> Json:
        if params["id"] in self.running:
            raise TrafficRefusal(
                -32602, "a watch of that id is there; close it first", {"seen": params["id"]}
            )
        self.running[params["id"]] = {**params, "begin_ns": self.clock.now_ns()}
        return {"by": ["tcx"] * len(params["points"]), "fallbacks": [], "begin_ns": self.clock.now_ns()}

    def _stop(self, params: dict[str, Json]) -> Json:
        asked = self._find(params)
        return {
            "points": [_quiet(asked) for _ in asked.get("points", ())],
            "stolen": [],
            "cpu_ns": 0,
            "begin_ns": asked["begin_ns"],
            "end_ns": self.clock.now_ns(),
        }

    def _read(self, params: dict[str, Json]) -> Json:
        self._find(params)
        return {"packed": "", "frame_bits": 6, "total_bytes": 0}

    def _close(self, params: dict[str, Json]) -> Json:
        self._find(params)
        del self.running[params["id"]]
        return {}

    def _find(self, params: dict[str, Json]) -> dict[str, Json]:
        name = params["id"]
        if name not in self.running:
            raise TrafficRefusal(-32004, f"there is no watch '{name}'", {"id": name})
        found: dict[str, Json] = self.running[name]
        return found


def _quiet(asked: dict[str, Json]) -> Json:
    """Return what a point tells that nothing passed."""
    views = ["arrival", *(["line"] if asked.get("line_bps") else [])]
    zeros = dict.fromkeys(
        ("first", "windows", "idle_windows", "bytes", "frames", "frames_squared", "late_frames", "left_out"),
        0,
    )
    rate_bps = asked.get("line_bps")
    buckets = [{"rate_bps": rate, "depth_bytes": 0, "left_bytes": 0} for rate in asked.get("rates_bps", ())]
    return {
        "by": "tcx",
        "first_ns": None,
        "last_ns": None,
        **dict.fromkeys(("added_bytes", "added_frames", "lost_frames", "lost_bytes"), 0),
        "counted": dict.fromkeys(("least_bytes", "most_bytes", "least_frames", "most_frames"), 0),
        "windows": [
            {"view": view, "window_ns": length, **zeros, "histogram": NOTHING}
            for view in views
            for length in asked["windows_ns"]
        ],
        "trains": dict.fromkeys(("frames", "bytes", "lengths_ns", "intervals_ns", "gaps_ns"), NOTHING),
        "curve": buckets,
        "line": rate_bps
        and {
            "busy_ns": 0,
            "needs": {"rate_bps": rate_bps, "depth_bytes": 0, "left_bytes": 0},
            "losses": [],
        },
        "flows": [],
    }
