"""What the stages of an emulated path lost has a reason, whatever the stage."""

import re
from pathlib import Path

from iolab.trial.counters.drops import LOST_BY

STAGES = Path(__file__).parents[4] / "crates" / "protocol" / "src" / "impairment.rs"
LOSE_NOTHING = {"corrupt", "duplicate", "reorder", "delay", "stall"}


def test_every_kind_of_stage_of_the_agent_has_the_reason_of_its_losses() -> None:
    """A kind that is added there and forgotten here would fail every trial in which it loses a frame."""
    kinds = {"codel", *re.findall(r'Self::\w+ \{ \.\. \} => "(\w+)"', STAGES.read_text())}
    assert {"line", "pacer"} <= kinds
    assert LOST_BY.keys() == kinds - LOSE_NOTHING
