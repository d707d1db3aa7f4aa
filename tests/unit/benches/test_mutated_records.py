"""Damaged records of older versions are read or refused with their place; see benches/faults/old_records.py."""

import random
from pathlib import Path

from benches.faults.mutated_records import READ, REFUSED, copies, damaged

DAMAGES = 150


def test_damaged_old_run_is_read_or_refused_with_the_location_of_the_damage(tmp_path: Path) -> None:
    """Change, remove, rename or nest any value; both outcomes occur."""
    chance = random.Random(7)
    runs = copies(tmp_path)
    outcomes = {damaged(chance.choice(runs), chance, concluded=False) for _ in range(DAMAGES)}
    assert outcomes == {READ, REFUSED}
