"""Watches of a fake agent: no frame passes them."""

from dataclasses import dataclass
from typing import ClassVar

from tests.fake_agent.opened import FakeOpened

from iolab.agent.messages import Json

NOTHING: Json = {"count": 0, "sum": 0, "min": None, "max": None, "above": 0, "buckets": []}
"""A histogram without values."""


@dataclass
class FakeWatches(FakeOpened):
    """Watches by name."""

    noun: ClassVar[str] = "watch"
    """Name of the instrument kind."""

    def started(self, params: dict[str, Json]) -> dict[str, Json]:
        """See FakeOpened."""
        return {"by": ["tcx"] * len(params["points"]), "fallbacks": []}

    def stopped(self, asked: dict[str, Json]) -> dict[str, Json]:
        """See FakeOpened."""
        return {
            "points": [_quiet(asked) for _ in asked.get("points", ())],
            "stolen": [],
            "cpu_ns": 0,
            "begin_ns": asked["begin_ns"],
            "end_ns": self.clock.now_ns(),
        }

    def content(self) -> dict[str, Json]:
        """See FakeOpened."""
        return {"packed": "", "frame_bits": 6, "total_bytes": 0}


def _quiet(asked: dict[str, Json]) -> Json:
    """Return the report of a point without frames."""
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
