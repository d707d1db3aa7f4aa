"""Damaged records of older versions are read or refused with their place; benches/faults/old_records.py damages
more."""

import random
from pathlib import Path

from benches.faults.mutated_records import READ, REFUSED, copies, damaged

DAMAGES = 150


def test_a_damaged_old_run_is_read_or_refused_with_its_place(tmp_path: Path) -> None:
    """Whatever was changed, left out, renamed or nested; both happen."""
    chance = random.Random(7)
    runs = copies(tmp_path)
    outcomes = {damaged(chance.choice(runs), chance, concluded=False) for _ in range(DAMAGES)}
    assert outcomes == {READ, REFUSED}
