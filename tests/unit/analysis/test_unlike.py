"""No change is given between cells of different kinds: emulated and native, or with different iSCSI sessions."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from iolab.analysis import analyse
from iolab.analysis.types import Estimate
from iolab.messages.warnings import Emulated
from iolab.plan.types import Plan
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.store.records import TrialRecord

MakeRun = Callable[..., tuple[list[TrialRecord], Plan]]
LOCAL, ISCSI, GUEST = "local", "iscsi", "guest"
RATES = {(0,): 100.0, (1,): 80.0, (2,): 40.0}


def path_of(trial: TrialRecord) -> str:
    """Return the level of a trial from its key."""
    return (LOCAL, ISCSI, GUEST)[int(trial.key.split("(")[1][0])]


def made(make_run: MakeRun, baseline: str = LOCAL) -> tuple[list[TrialRecord], Plan]:
    """Return a run of three paths to a disk, five blocks."""
    return make_run(
        {"path": [LOCAL, ISCSI, GUEST]},
        5,
        lambda _, levels, block: {"received_bps": (RATES[levels] + block, "bit/s")},
        baseline={"path": baseline},
    )


def emulated(trials: Iterable[TrialRecord], *paths: str) -> list[TrialRecord]:
    """Mark the trials of some paths as emulated."""
    mark = (Emulated(machines=("pc2vm",)),)
    return [
        replace(each, result=replace(each.result, warnings=mark)) if path_of(each) in paths else each
        for each in trials
    ]


def with_session(
    trials: Iterable[TrialRecord], sizes: dict[str, float], asked: str = ""
) -> list[TrialRecord]:
    """Add negotiated session parameters to some paths; on one of them they were requested."""
    part = Dimensions(part="FirstBurstLength")

    def of(each: TrialRecord) -> TrialRecord:
        path = path_of(each)
        more = [Metric("iscsi_agreed_bytes", "byte", sizes[path], part)] if path in sizes else []
        more += [Metric("iscsi_asked_bytes", "byte", sizes[path], part)] if path == asked else []
        return replace(each, result=replace(each.result, metrics=Metrics((*each.result.metrics, *more))))

    return [of(each) for each in trials]


def rates(trials: list[TrialRecord], plan: Plan) -> dict[str, Estimate]:
    """Return the estimates of the rate by path."""
    found = analyse(trials, plan).estimates
    return {each.cell["path"]: each for each in found if each.metric.name == "received_bps"}


def test_emulated_cell_has_no_ratio_to_a_native_baseline(make_run: MakeRun) -> None:
    """Keep the ratios of the two native cells, and name the reason for the third."""
    trials, plan = made(make_run)
    found = rates(emulated(trials, GUEST), plan)
    assert found[ISCSI].ratio == pytest.approx(0.806, abs=0.001)
    assert (found[GUEST].ratio, found[GUEST].apart) == (None, "emulated")
    assert found[GUEST].mean == pytest.approx(43.0)


def test_emulated_cell_has_a_ratio_to_an_emulated_baseline(make_run: MakeRun) -> None:
    """Allow comparisons among emulated figures."""
    trials, plan = made(make_run, baseline=ISCSI)
    found = rates(emulated(trials, ISCSI, GUEST), plan)
    assert found[GUEST].ratio == pytest.approx(43 / 83, abs=0.002)
    assert (found[LOCAL].ratio, found[LOCAL].apart) == (None, "emulated")


def test_findings_and_effects_exclude_emulated_cells(make_run: MakeRun) -> None:
    """Do not state that the emulated guest is slower than the local disk."""
    trials, plan = made(make_run)
    of_all, of_some = analyse(trials, plan), analyse(emulated(trials, GUEST), plan)
    assert any(GUEST in str(each) for each in of_all.findings)
    assert of_some.findings
    assert not any(GUEST in str(each) for each in of_some.findings)


def test_without_a_baseline_findings_exclude_emulated_cells(make_run: MakeRun) -> None:
    """Compare the other cells."""
    trials, plan = made(make_run)
    found = analyse(emulated(trials, GUEST), replace(plan, baseline={})).findings
    assert found
    assert not any(GUEST in str(each) for each in found)


def test_cells_with_different_negotiated_iscsi_parameters_have_no_ratio(make_run: MakeRun) -> None:
    """Accept equal values, and a cell without a session."""
    trials, plan = made(make_run, baseline=ISCSI)
    found = rates(with_session(trials, {ISCSI: 65536.0, GUEST: 262144.0}), plan)
    assert (found[GUEST].ratio, found[GUEST].apart) == (None, "session-differs")
    assert found[LOCAL].ratio is not None
    same = rates(with_session(trials, {ISCSI: 65536.0, GUEST: 65536.0}), plan)
    assert same[GUEST].ratio is not None


def test_cells_with_different_requested_iscsi_parameters_have_a_ratio(make_run: MakeRun) -> None:
    """Treat a factor that sets the parameters as the question, not as a doubt."""
    trials, plan = made(make_run, baseline=ISCSI)
    found = rates(with_session(trials, {ISCSI: 65536.0, GUEST: 262144.0}, asked=GUEST), plan)
    assert found[GUEST].ratio == pytest.approx(43 / 83, abs=0.002)
