"""Captures of a fake agent: each captures one frame."""

from dataclasses import dataclass
from typing import ClassVar

from tests.fake_agent.opened import FakeOpened

from iolab.agent.messages import Json


@dataclass
class FakeCaptures(FakeOpened):
    """Captures by name."""

    noun: ClassVar[str] = "capture"
    """Name of the instrument kind."""
    lost_frames: int = 0
    """Lost frames of every capture."""
    file: str = "Cg0NCg=="
    """File of every capture, in base64."""

    def stopped(self, asked: dict[str, Json]) -> dict[str, Json]:
        """See FakeOpened."""
        counts = dict.fromkeys(("overwritten_frames", "filtered_frames", "cut_frames"), 0)
        return counts | {
            "kept_frames": 1,
            "lost_frames": self.lost_frames,
            "total_bytes": 4,
            "begin_ns": asked["begin_ns"],
            "end_ns": self.clock.now_ns(),
        }

    def content(self) -> dict[str, Json]:
        """See FakeOpened."""
        return {"packed": self.file, "total_bytes": 4}
