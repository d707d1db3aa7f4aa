"""Filters and orders of runs are pure functions of their summaries."""

from pathlib import Path

import pytest

from iolab.errors import InputError
from iolab.store.labels import Label
from iolab.store.listing import ListedRun, filters, in_order

RUNS = (
    ListedRun(folder=Path("runs/20260101T000000-a"), started="2026-01-01T00:00:00", title="MTU, window",
              status="complete", planned=4, trials={"ok": 3, "failed": 1},
              label=Label(note="Before the update", tags=("lab7", "x"))),
    ListedRun(folder=Path("runs/20260201T000000-b"), started="2026-02-01T00:00:00", title="Disks",
              status="partial", planned=20, trials={"ok": 2}, label=Label(tags=("lab8",))),
    ListedRun(folder=Path("runs/copy"), reason="damaged"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], "a b copy"),
        (["status=partial"], "b"),
        (["status=partial|complete"], "a b"),
        (["status!=partial"], "a copy"),
        (["tag=lab7"], "a"),
        (["tag=lab*"], "a b"),
        (["tag!=lab7"], "b copy"),
        (["tag="], "copy"),
        (["note=*UPDATE*"], "a"),
        (["failed>0"], "a"),
        (["trials>=2,trials<=3"], "b"),
        (["planned=4|20"], "a b"),
        (["planned!=4"], "b copy"),
        (["started>=2026-01-15"], "b"),
        (["started<2026-01-15"], "a"),
        (["started=2026-02*"], "b"),
        (["status=partial", "failed=1"], "a b"),
        (["status=partial,failed=1"], ""),
        (["name=copy"], "copy"),
    ],
)
def test_filter_selects_runs(texts: list[str], expected: str) -> None:
    """All conditions of a filter hold, and one of several filters."""
    matches = filters(texts)
    assert " ".join(run.folder.name[-4:].split("-")[-1] for run in RUNS if matches(run)) == expected


def test_all_errors_of_filters_are_reported_at_once() -> None:
    """Name the nearest key, the form of conditions, and the values that a key allows."""
    with pytest.raises(InputError) as raised:
        filters(["statux=ok,failed>many", "nonsense", "title<5", "ok>1|2"])
    told = str(raised.value).splitlines()
    assert len(told) == 5
    assert "did you mean status" in told[0]
    assert "a whole number for `failed`" in told[1]
    assert "conditions separated by commas" in told[2]
    assert "which is a text" in told[3]


@pytest.mark.parametrize(
    ("key", "expected"),
    [("started", "copy a b"), ("-started", "b a copy"), ("-planned", "b a copy"), ("title", "copy b a"),
     ("-failed", "a b copy")],
)  # fmt: skip
def test_runs_are_sorted_by_a_key(key: str, expected: str) -> None:
    """A minus sign reverses the order; equal runs keep theirs."""
    assert " ".join(run.folder.name.split("-")[-1] for run in in_order(RUNS, key)) == expected


def test_unknown_order_is_refused_with_the_known_ones() -> None:
    """Tags have no order."""
    with pytest.raises(InputError, match=r"--sort.*'tag'.*planned"):
        in_order(RUNS, "tag")
