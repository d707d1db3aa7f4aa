"""Figures by several method versions: never pooled, never compared, and always reported."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.analysis.stored_runs import stored

from iolab.analysis import analyse, compare
from iolab.analysis.forwarding import direction_ratios
from iolab.analysis.types import Analysis, Estimate
from iolab.experiment.experiment import Summary
from iolab.messages.notes import MethodsDiffer, MethodsMixed, MethodsUnknown
from iolab.messages.warnings import TrialWarning
from iolab.plan.types import Plan
from iolab.results.metric import Method, Metrics, Quantity
from iolab.store.records import StoredRun, TrialRecord

MakeRun = Callable[..., tuple[list[TrialRecord], Plan]]
Versions = Callable[[tuple[int, ...], int], Method]
RATE = Quantity("received_bps")


def by_methods(make_run: MakeRun, versions: Versions, **more: object) -> tuple[list[TrialRecord], Plan]:
    """Return a run of two sizes and four blocks; `versions` gives the method of a trial by its levels and block.

    Each version measures ten times as much as the one before: a mean of several cannot be overlooked.
    """
    found: dict[str, Method] = {}

    def value(measure: str, levels: tuple[int, ...], block: int) -> dict[str, tuple[float, str]]:
        method = versions(levels, block)
        found[f"{measure}/{levels}/{block}"] = method
        return {"received_bps": ((1e9 + 1e6 * block) * 10 ** (method or 0), "bit/s")}

    factors = more.pop("factors", {"mtu": ["1500", "9000"]})
    records, plan = make_run(factors, 4, value, **more)
    return [_by(record, found[record.key]) for record in records], plan


def _by(record: TrialRecord, method: Method) -> TrialRecord:
    metrics = Metrics(replace(metric, method=method) for metric in record.result.metrics)
    return replace(record, result=replace(record.result, metrics=metrics))


def mixed(analysis: Analysis) -> list[TrialWarning]:
    """Return the notes on method versions."""
    return [note for note in analysis.notes if isinstance(note, MethodsMixed)]


def estimates(analysis: Analysis) -> dict[str, Estimate]:
    """Return the estimates by size."""
    return {each.cell["mtu"]: each for each in analysis.estimates}


@pytest.mark.parametrize("method", [1, 2, None])
def test_run_with_one_method_version_has_ratios_and_no_note(make_run: MakeRun, method: Method) -> None:
    """Treat unknown as one version: one iolab measured the whole run."""
    analysis = analyse(*by_methods(make_run, lambda *_: method, baseline={"mtu": "1500"}))
    assert {each.method for each in analysis.estimates} == {method}
    assert estimates(analysis)["9000"].ratio == pytest.approx(1)
    assert mixed(analysis) == []


def test_mean_contains_only_the_trials_of_the_newest_method_version(make_run: MakeRun) -> None:
    """Exclude and count two older blocks of a run that a newer iolab extended."""
    analysis = analyse(*by_methods(make_run, lambda _, block: 1 if block <= 2 else 2))
    assert [(each.n, each.method) for each in analysis.estimates] == [(2, 2)] * 2
    assert [each.mean for each in analysis.estimates] == pytest.approx([100.35e9] * 2)
    assert mixed(analysis) == [
        MethodsMixed(
            measure="tcp", metrics=("received_bps",), older=("1",), newest="2", older_cells=0, left_out=4
        )
    ]


def test_unknown_method_version_is_older_than_every_known_version(make_run: MakeRun) -> None:
    """Check a run that an iolab without versions began and a current one extended."""
    analysis = analyse(*by_methods(make_run, lambda _, block: None if block <= 2 else 1))
    assert {each.method for each in analysis.estimates} == {1}
    (note,) = mixed(analysis)
    assert isinstance(note, MethodsMixed)
    assert (note.older, note.newest) == (("unknown",), "1")


def test_cell_has_no_ratio_to_a_baseline_of_a_different_method_version(make_run: MakeRun) -> None:
    """Give both means, but no change, finding or effect for a level added by a newer iolab."""
    run = by_methods(make_run, lambda levels, _: 1 + levels[0], baseline={"mtu": "1500"})
    analysis = analyse(*run)
    old, new = estimates(analysis)["1500"], estimates(analysis)["9000"]
    assert (old.method, new.method, old.n, new.n) == (1, 2, 4, 4)
    assert (new.ratio, new.ratio_ci, new.p_value, new.apart) == (None, None, None, "method-differs")
    assert (analysis.findings, analysis.effects) == ((), ())
    (note,) = mixed(analysis)
    assert isinstance(note, MethodsMixed)
    assert note.older_cells == 1


def test_cell_keeps_its_ratio_to_a_baseline_of_the_same_method_version(make_run: MakeRun) -> None:
    """Check two windows, the second of a newer version, each with its baseline."""
    run = by_methods(
        make_run,
        lambda levels, _: 1 + levels[1],
        factors={"mtu": ["1500", "9000"], "window": ["128K", "1M"]},
        baseline={"mtu": "1500"},
    )
    found = {tuple(each.cell.values()): each.ratio for each in analyse(*run).estimates}
    assert found == {
        ("1500", "128K"): 1.0, ("1500", "1M"): 1.0,
        ("9000", "128K"): pytest.approx(1), ("9000", "1M"): pytest.approx(1),
    }  # fmt: skip


def test_findings_and_effects_use_only_the_newest_method_version(make_run: MakeRun) -> None:
    """Exclude a third size of a different version that is ten times as fast."""
    run = by_methods(
        make_run,
        lambda levels, _: 1 if levels[0] == 2 else 2,
        factors={"mtu": ["1500", "9000", "64"]},
        baseline={"mtu": "1500"},
    )
    analysis = analyse(*run)
    assert {effect.levels["mtu"] for effect in analysis.effects} == {"9000"}
    assert {finding.level for finding in analysis.findings} == {"9000"}


def test_figure_over_levels_requires_one_method_version(make_run: MakeRun) -> None:
    """Give the mean over sizes if all sizes have one version."""

    def summed(versions: Versions) -> int:
        records, plan = by_methods(make_run, versions)
        plan = replace(plan, summaries=(Summary("mtu", ("mean",)),))
        return len(analyse(records, plan).levels_figures)

    assert (summed(lambda *_: 2), summed(lambda levels, _: 1 + levels[0])) == (1, 0)


def test_direction_ratio_requires_one_method_version(make_run: MakeRun) -> None:
    """List the pair without a ratio."""
    run = by_methods(
        make_run, lambda levels, _: 1 + levels[0], factors={"*.direction": ["one-way", "both-ways"]}
    )
    found = [replace(each, metric=Quantity("forwarded_fps")) for each in analyse(*run).estimates]
    rests = {frozenset(each.cell.items()): "same" for each in found}
    (ratio,) = direction_ratios(found, rests)
    assert (ratio.mean, ratio.min, ratio.max) == (None, None, None)


def test_loss_onset_requires_one_method_version(
    make_run: MakeRun,
) -> None:
    """Give no onset, because loss by the older version may be none by the newer."""

    def onsets(versions: Versions) -> int:
        records, plan = make_run(
            {"tcp.rate": ["1Gbit", "2Gbit"]},
            3,
            lambda _, levels, __: {"loss_ratio": (0.2 * levels[0], "ratio")},
        )
        by = {step.key: versions(step.levels, step.block) for step in plan.steps}
        return len(analyse([_by(record, by[record.key]) for record in records], plan).onsets)

    assert (onsets(lambda *_: 2), onsets(lambda levels, _: 1 + levels[0])) == (1, 0)


def two_runs(make_run: MakeRun, first: Method, second: Method) -> tuple[StoredRun, StoredRun]:
    """Return two runs, each of one version."""
    a, b = (by_methods(make_run, lambda *_, of=method: of) for method in (first, second))
    return stored("before", a), stored("after", b)


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1), (None, 1), (3, None)])
def test_runs_of_different_method_versions_are_listed_without_a_ratio(
    make_run: MakeRun, first: Method, second: Method
) -> None:
    """List both means, the metrics, and both versions."""
    found = compare(*two_runs(make_run, first, second))
    assert {(each.ratio, each.ci, each.p_value) for each in found.cells} == {(None, None, None)}
    assert {(each.method_a, each.method_b, each.n_a, each.n_b) for each in found.cells} == {
        (first, second, 4, 4)
    }
    assert found.overall == ()
    names = [str(method or "unknown") for method in (first, second)]
    assert found.warnings == (
        MethodsDiffer(measure="tcp", metrics=("received_bps",), first=names[0], second=names[1]),
    )


def test_cells_with_equal_method_versions_are_compared_even_if_others_differ(make_run: MakeRun) -> None:
    """Omit only the ratio of the cell measured by a different version."""
    a = stored("before", by_methods(make_run, lambda *_: 1))
    b = stored("after", by_methods(make_run, lambda levels, _: 1 + levels[0]))
    found = compare(a, b)
    assert [each.ratio for each in found.cells] == [pytest.approx(1), None]
    (overall,) = found.overall
    assert overall.cells == 1
    assert overall.ratio == pytest.approx(1)


def test_runs_without_method_versions_are_compared_if_their_schemas_are_equal(make_run: MakeRun) -> None:
    """Rely on the schema, which a change of meaning raised before methods had versions."""
    a, b = (replace(run, trial_schema=2) for run in two_runs(make_run, None, None))
    found = compare(a, b)
    assert [each.ratio for each in found.cells] == [pytest.approx(1)] * 2
    assert found.warnings == (MethodsUnknown(trial_schema=2),)


def test_runs_without_method_versions_and_with_different_schemas_are_not_compared(make_run: MakeRun) -> None:
    """Give no ratio, because the meaning may have changed between the schemas."""
    a, b = two_runs(make_run, None, None)
    found = compare(replace(a, trial_schema=1), replace(b, trial_schema=2))
    assert [each.ratio for each in found.cells] == [None] * 2
    assert [type(note) for note in found.warnings] == [MethodsDiffer]
