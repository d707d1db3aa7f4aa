"""Effective settings as tables and lines: each value once, with its places and cells."""

from dataclasses import replace

import pytest
from tests.unit.report.builder import quickstart

from iolab.report.environment import SHORT, in_effect_grid, short_lines, values
from iolab.report.locale import EN
from iolab.report.names import names
from iolab.store.records import TrialRecord


def trial(base: TrialRecord, congestion: str, level: str) -> TrialRecord:
    """Return a trial of one cell with effective settings."""
    shown = {
        "near->far": {"congestion": congestion},
        "near.eth0": {"mtu": "1500"},
        "far.eth0": {"mtu": "1500"},
    }
    return replace(base, cell={"tcp.congestion": level}, result=replace(base.result, in_effect=shown))


@pytest.fixture
def trials() -> list[TrialRecord]:
    """Return two cells with different congestion control."""
    run, _ = quickstart()
    base = next(one for one in run.trials if one.result.status == "ok")
    return [trial(base, "bbr", "none"), trial(base, "cubic", "cubic")]


def test_effective_value_of_a_setting_is_listed_once_with_its_places_and_cells(
    trials: list[TrialRecord],
) -> None:
    """Name no cell for a value of all cells."""
    found = {(one.setting, one.value): (one.places, len(one.cells)) for one in values(trials)}
    assert found == {
        ("congestion", "bbr"): (("near->far",), 1),
        ("congestion", "cubic"): (("near->far",), 1),
        ("mtu", "1500"): (("near.eth0", "far.eth0"), 0),
    }


def test_terminal_has_one_line_per_effective_setting(trials: list[TrialRecord]) -> None:
    """Use a row per value in the table of the other formats."""
    named = names(["tcp.congestion"], EN)
    lines = list(short_lines(trials, named, SHORT))
    assert len(lines) == 2
    assert "bbr (near->far" in lines[0]
    grid = in_effect_grid(trials, named)
    assert grid is not None
    assert len(grid.rows) == 3


def test_records_without_effective_settings_show_no_table(trials: list[TrialRecord]) -> None:
    """Accept records of older versions."""
    empty = [replace(one, result=replace(one.result, in_effect={})) for one in trials]
    assert in_effect_grid(empty, names([], EN)) is None
    assert list(short_lines(empty, names([], EN), SHORT)) == []
