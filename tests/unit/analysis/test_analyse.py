"""Counted trials, and the contents of an analysis."""

import random as plain_random
from collections.abc import Callable

import numpy as np
import pytest
from tests.wording import in_words
from tests.work import counted

from iolab.analysis import analyse
from iolab.analysis.analyse import commonest, leading_metric
from iolab.errors import InputError
from iolab.messages.caveats import CauseUnsure
from iolab.messages.places import AtMachine, OnPath
from iolab.plan.types import Plan
from iolab.results.metric import Dimensions, Quantity
from iolab.results.trial import Status
from iolab.results.verdict import Limit, Verdict
from iolab.store.records import TrialRecord

MakeRun = Callable[..., tuple[list[TrialRecord], Plan]]
MakeRecord = Callable[..., TrialRecord]
RECEIVED = Quantity("received_bps")


def of_flow(number: int) -> Quantity:
    """Return the received rate of one flow."""
    return Quantity("received_bps", Dimensions(flow=str(number)))


def steady(measure: str, levels: tuple[int, ...], block: int) -> dict[str, tuple[float, str]]:
    """Return two metrics; the first one listed does not lead."""
    return {
        "loss_ratio": (0.001 * block, "ratio"),
        "received_bps": (100.0 * (1 + levels[0]) + block, "bit/s"),
    }


def test_estimate_contains_count_mean_minimum_maximum_and_median(make_run: MakeRun) -> None:
    """Compute the figures of one cell."""
    rates = [5.0, 1.0, 9.0, 2.0]
    records, plan = make_run(
        {"a": "x"}, 4, lambda m, levels, block: {"received_bps": (rates[block - 1], "bit/s")}
    )
    (found,) = analyse(records, plan).estimates
    assert (found.n, found.mean, found.min, found.max, found.median) == (4, 4.25, 1.0, 9.0, 3.5)
    assert found.values == tuple(rates)
    assert (found.unit, found.measure, dict(found.cell)) == ("bit/s", "tcp", {"a": "x"})


def test_failed_and_invalid_trials_are_excluded_and_counted_in_a_note(
    make_run: MakeRun, make_record: MakeRecord
) -> None:
    """Count only status ok, and note the number of excluded trials."""
    records, plan = make_run({"a": "x"}, 3, steady)
    bad = [
        make_record(records[0].key, "tcp", 1, {"received_bps": (7.0, "bit/s")}, Status.INVALID),
        make_record(records[1].key, "tcp", 2, {}, Status.FAILED),
    ]
    analysis = analyse([*records, *bad], plan)
    assert {found.n for found in analysis.estimates} == {1}
    assert [(note.code, in_words(note)[:6]) for note in analysis.notes] == [("trials-not-ok", "2 of 3")]


def test_only_the_last_record_of_a_repeated_trial_counts(make_run: MakeRun, make_record: MakeRecord) -> None:
    """Replace a trial by its repetition."""
    records, plan = make_run({"a": "x"}, 1, steady)
    failed = make_record(records[0].key, "tcp", 1, {}, Status.FAILED)
    again = make_record(records[0].key, "tcp", 1, {"received_bps": (7.0, "bit/s")})
    (found,) = analyse([*records, failed, again], plan).estimates
    assert found.values == (7.0,)


def test_trials_outside_the_plan_are_excluded_and_counted_in_a_note(
    make_run: MakeRun, make_record: MakeRecord
) -> None:
    """Exclude a trial whose key is not in the plan, because its cell is unknown."""
    records, plan = make_run({"a": "x"}, 2, steady)
    stranger = make_record("other", "tcp", 1, {"received_bps": (1.0, "bit/s")})
    analysis = analyse([*records, stranger], plan)
    assert {found.n for found in analysis.estimates} == {2}
    assert [(note.code, in_words(note)[:6]) for note in analysis.notes] == [("trials-not-in-plan", "1 of 3")]


def test_cells_are_in_the_order_of_the_plans_factors(make_run: MakeRun) -> None:
    """Do not use the order of the trials."""
    records, plan = make_run({"a": "xy", "b": "pq"}, 2, steady, measures=["udp", "tcp"])
    shuffled = list(records)
    plain_random.Random(3).shuffle(shuffled)
    found = analyse(shuffled, plan).estimates
    assert [own.measure for own in found] == ["udp"] * 8 + ["tcp"] * 8
    cells = [
        tuple(own.cell.values())
        for own in found
        if own.measure == "udp" and own.metric == Quantity("received_bps")
    ]
    assert cells == [("x", "p"), ("x", "q"), ("y", "p"), ("y", "q")]


def test_order_of_records_does_not_change_the_analysis(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Place trials by key: any order of lines gives the same analysis."""
    records, plan = make_run(
        {"a": "xy", "b": "pq"}, 4, lambda *_: {"received_bps": (float(random.lognormal(20, 0.1)), "bit/s")},
        baseline={"a": "x"},
    )  # fmt: skip
    assert analyse(records[::-1], plan) == analyse(records, plan)


def test_leading_metric_is_received_rate_or_else_forwarded_rate_or_else_the_first_metric(
    make_run: MakeRun,
) -> None:
    """Select the leading metric of a measure."""
    metrics = {
        "tcp": {"loss_ratio": (0.0, "ratio"), "received_bps": (1.0, "bit/s")},
        "ndr": {"loss_ratio": (0.0, "ratio"), "forwarded_fps": (1.0, "frame/s")},
        "disk": {"write_bps": (1.0, "bit/s"), "latency_ns": (1.0, "ns")},
    }
    run = make_run({"a": "x"}, 1, lambda measure, levels, block: metrics[measure], measures=list(metrics))
    assert analyse(*run).leading == {
        "tcp": Quantity("received_bps"),
        "ndr": Quantity("forwarded_fps"),
        "disk": Quantity("write_bps"),
    }


@pytest.mark.parametrize(
    ("parts", "leads"),
    [
        (("cached", "buffered"), "buffered"),
        (("put-byte", "put-block", "rewrite"), "put-block"),
        (("write", "read"), "write"),
    ],
)
def test_leading_metric_of_a_disk_program_measures_the_disk_not_memory_or_system_calls(
    parts: tuple[str, ...], leads: str
) -> None:
    """Skip hdparm's first figure, of memory, and bonnie++'s first, of single bytes."""
    known = [Quantity("disk_bytes_per_s", Dimensions(part=part)) for part in parts]
    assert leading_metric(known, "disk") == Quantity("disk_bytes_per_s", Dimensions(part=leads))


def test_metric_that_only_some_cells_have_is_estimated_in_those_cells(make_run: MakeRun) -> None:
    """Estimate per-flow metrics where the flow exists."""
    run = make_run(
        {"a": "xy"}, 2,
        lambda m, levels, block: {RECEIVED: (1.0, "bit/s"), of_flow(levels[0]): (1.0, "bit/s")},
    )  # fmt: skip
    found = [(own.metric, own.cell["a"]) for own in analyse(*run).estimates]
    assert found == [
        (RECEIVED, "x"), (RECEIVED, "y"), (of_flow(0), "x"), (of_flow(1), "y"),
    ]  # fmt: skip


def test_different_units_of_one_metric_are_refused(make_run: MakeRun) -> None:
    """Name both units in the error."""
    run = make_run(
        {"a": "x"}, 2, lambda m, levels, block: {"received_bps": (1.0, ("bit/s", "byte/s")[block - 1])}
    )
    with pytest.raises(InputError, match=r"byte/s.*bit/s"):
        analyse(*run)


def test_non_finite_values_are_excluded_and_noted(make_run: MakeRun) -> None:
    """Neither average nor hide NaN and infinity."""
    run = make_run(
        {"a": "x"}, 2, lambda m, levels, block: {"received_bps": ((1.0, float("nan"))[block - 1], "bit/s")}
    )
    analysis = analyse(*run)
    assert [own.n for own in analysis.estimates] == [1]
    assert [note.code for note in analysis.notes] == ["value-not-finite"]


def test_run_without_trials_gives_an_empty_analysis(make_run: MakeRun) -> None:
    """Return no estimate and raise no error."""
    _, plan = make_run({"a": "xy"}, 3, steady)
    analysis = analyse([], plan)
    assert (list(analysis.estimates), analysis.findings, dict(analysis.leading)) == ([], (), {})


def test_run_without_factors_has_one_cell(make_run: MakeRun) -> None:
    """Return one estimate with an interval."""
    run = make_run({}, 5, lambda m, levels, block: {"received_bps": (100.0 + block, "bit/s")})
    analysis = analyse(*run)
    (found,) = analysis.estimates
    assert (dict(found.cell), found.n, found.ci is not None) == ({}, 5, True)
    assert (analysis.effects, analysis.findings) == ((), ())


def test_analysis_work_grows_linearly_with_the_number_of_trials(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Count function calls, which no busy host changes; benches/cost/report_100k.py measures the time."""

    def value(*_: object) -> dict[str, tuple[float, str]]:
        return {f"m{index}": (own, "s") for index, own in enumerate(random.lognormal(20, 0.02, 4).tolist())}

    def calls(levels: int) -> int:
        labels = [str(level) for level in range(levels)]
        records, plan = make_run({"f0": labels, "f1": labels}, 5, value, baseline={"f0": "0"})
        with counted() as work:
            assert len(analyse(records, plan).estimates) == 4 * levels**2
        return work.calls

    assert calls(40) <= 5 * calls(20)


def test_limit_of_a_cell_is_the_most_frequent_limit_of_its_trials() -> None:
    """Use the figures of a trial without a doubt, and count the trials."""
    path = Verdict(Limit.PATH, place=OnPath(source="a", target="b"))
    found = commonest(
        [
            path,
            Verdict(
                Limit.PATH, place=OnPath(source="a", target="b"), doubt=CauseUnsure(code="place-unknown")
            ),
            Verdict(Limit.THREAD, place=AtMachine(machine="a")),
        ]
    )
    assert (found.limit, found.place, found.doubt) == (Limit.PATH, OnPath(source="a", target="b"), None)
    assert (found.count, found.total) == (2, 3)
