"""Findings of the summary against simulated truth."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pytest

from iolab.analysis import analyse
from iolab.analysis.types import Analysis
from iolab.plan.types import Plan
from iolab.store.records import TrialRecord

MakeRun = Callable[..., tuple[list[TrialRecord], Plan]]
Logs = Callable[[str, tuple[int, ...]], float]

QUICKSTART: Mapping[str, Sequence[str]] = {
    "mtu": ["1500", "9000"], "offload": ["on", "off"], "direction": ["one-way", "both-ways"],
}  # fmt: skip


def simulate(
    make_run: MakeRun,
    seed: int,
    truth: Logs = lambda measure, levels: 0.0,
    *,
    factors: Mapping[str, Sequence[str]] = QUICKSTART,
    measures: Sequence[str] = ("tcp", "udp"),
    blocks: int = 3,
    plot_spread: float = 0.0,
    grouping: Sequence[str] = (),
) -> Analysis:
    """Return a run at 2 % spread between trials, with block drift of 5 % and optional plot effects."""
    random = np.random.default_rng(seed)
    plots: dict[tuple[int, ...], float] = {}

    def value(measure: str, levels: tuple[int, ...], block: int) -> dict[str, tuple[float, str]]:
        expensive = [own for own, name in zip(levels, factors, strict=True) if name in grouping]
        plot = plots.setdefault((block, *expensive), random.normal(0, 1) * plot_spread)
        log = truth(measure, levels) + 0.05 * block + plot + random.normal(0, 0.02)
        return {"received_bps": (float(np.exp(20 + log)), "bit/s")}

    baseline = {name: labels[0] for name, labels in factors.items()}
    return analyse(*make_run(factors, blocks, value, measures=measures, baseline=baseline, grouping=grouping))


@pytest.mark.parametrize("levels", [10, 30, 40])
def test_equal_effect_in_all_cells_is_one_finding_for_any_number_of_levels(
    make_run: MakeRun, levels: int
) -> None:
    """Keep one finding even if one level differs by 10 %."""
    labels = [str(level) for level in range(levels)]
    made = simulate(
        make_run, 1, lambda _, at: 0.1 * (at[0] == 1), factors={"a": labels, "b": labels}, measures=("tcp",)
    )
    (shown,) = (each for each in made.findings if each.shown)
    assert (shown.factor, shown.level, shown.conditions) == ("a", "1", {})


@pytest.mark.parametrize(
    ("factors", "plot_spread", "grouping"),
    [
        (QUICKSTART, 0.0, ()),
        ({"a": "1234"}, 0.0, ()),
        (QUICKSTART, 0.02, ("mtu", "offload")),
    ],
    ids=["quickstart", "one factor", "split-plot"],
)
def test_runs_without_effects_show_findings_in_at_most_5_percent_of_cases(
    make_run: MakeRun, factors: Mapping[str, Sequence[str]], plot_spread: float, grouping: Sequence[str]
) -> None:
    """Allow 5 % of 180 A/A runs plus two standard errors (8.3 %); benches/truth/coverage.py runs more."""
    runs = [
        simulate(make_run, seed, factors=factors, plot_spread=plot_spread, grouping=grouping)
        for seed in range(180)
    ]
    assert np.mean([any(finding.shown for finding in run.findings) for run in runs]) <= 0.083


def test_three_blocks_detect_a_5_percent_effect_at_2_percent_spread(make_run: MakeRun) -> None:
    """Find it in at least 95 of 100 quickstart-like runs, at its true size."""
    found = [
        finding
        for seed in range(100)
        for finding in simulate(make_run, seed, lambda m, levels: np.log(1.05) * levels[1]).findings
        if finding.factor == "offload" and finding.measure == "tcp"
    ]
    assert sum(finding.shown for finding in found) >= 95
    assert np.mean([finding.ratio for finding in found]) == pytest.approx(1.05, abs=0.003)
    covers = [finding.ci is not None and finding.ci.low <= 1.05 <= finding.ci.high for finding in found]
    assert sum(covers) >= 88


def test_smallest_detectable_change_is_detected_with_80_percent_power(make_run: MakeRun) -> None:
    """Check the power of a two-sided 5 % test of one effect at the stated detectable change, to 6 %.

    Of one measure: another has a model, a spread and tests of its own.
    """
    one = partial(simulate, make_run, measures=["tcp"])
    spread = 0.02 * (2 / 12) ** 0.5  # two means of 12 trials each
    steps = [np.log1p(one(seed).detectable["tcp"]) for seed in range(50)]
    step = float(np.sqrt(np.mean(np.square(steps))))
    assert step == pytest.approx(3.0 * spread, rel=0.05)
    hits = 0
    for seed in range(200):
        analysis = one(1000 + seed, lambda m, levels: step * levels[1])
        (effect,) = [e for e in analysis.effects if list(e.levels) == ["offload"]]
        hits += effect.ci is not None and not effect.ci.low <= 1 <= effect.ci.high
    assert hits / 200 == pytest.approx(0.80, abs=0.06)


def test_reported_spread_is_the_median_coefficient_of_variation_between_blocks(make_run: MakeRun) -> None:
    """Take the median over cells of standard deviation over mean."""
    run = make_run(
        {"a": "xyz"}, 3, lambda m, levels, block: {"received_bps": (100 + (levels[0] + 1) * (block - 2), "x")}
    )
    assert analyse(*run).spread == {"tcp": pytest.approx(0.02)}


def test_factor_without_interaction_is_one_finding(make_run: MakeRun) -> None:
    """State the finding over all other factors, which show nothing."""
    findings = simulate(make_run, 1, lambda m, levels: 0.3 * levels[0]).findings
    shown = [finding for finding in findings if finding.shown]
    assert [(f.factor, f.level, f.reference, dict(f.conditions)) for f in shown] == [
        ("mtu", "9000", "1500", {})
    ] * 2
    rest = {(f.measure, f.factor) for f in findings if not f.shown}
    assert rest == {(measure, factor) for measure in ("tcp", "udp") for factor in ("offload", "direction")}


def test_effect_that_could_be_compared_at_one_level_only_names_this_level(make_run: MakeRun) -> None:
    """Let the trials under load have no figure: the effect of the queue says nothing about load."""
    random = np.random.default_rng(1)

    def value(_: str, levels: tuple[int, ...], block: int) -> dict[str, tuple[float, str]]:
        seen = {"received_bps": (float(np.exp(20 + random.normal(0, 0.02))), "bit/s")}
        return {} if levels[0] else seen

    factors = {"load": ["idle", "loaded"], "queue": ["codel", "fifo"], "mtu": ["1500", "9000"]}
    baseline = {"load": "idle", "queue": "codel", "mtu": "1500"}
    found = analyse(*make_run(factors, 3, value, measures=("rr",), baseline=baseline))
    assert {each.factor: dict(each.conditions) for each in found.findings} == {
        "queue": {"load": "idle"}, "mtu": {"load": "idle"},
    }  # fmt: skip
    alone = [each for each in found.effects if len(each.levels) == 1]
    assert [dict(each.conditions) for each in alone] == [{"load": "idle"}] * 2


def test_factor_that_interacts_is_reported_per_condition(make_run: MakeRun) -> None:
    """Report that MTU 9000 helps one-way traffic, and that both ways shows no difference."""
    findings = simulate(make_run, 2, lambda m, levels: 0.34 if levels[0] and not levels[2] else 0.0).findings
    mtu = {
        tuple(finding.conditions.items()): finding
        for finding in findings
        if finding.factor == "mtu" and finding.measure == "tcp"
    }
    assert set(mtu) == {(("direction", "one-way"),), (("direction", "both-ways"),)}
    assert mtu[("direction", "one-way"),].shown
    assert mtu[("direction", "one-way"),].ratio == pytest.approx(np.exp(0.34), rel=0.03)
    assert not mtu[("direction", "both-ways"),].shown


def test_findings_are_sorted_by_size_and_limited_to_twelve(make_run: MakeRun) -> None:
    """Keep 12 of the findings of nine levels and two factors without effect, shown ones first."""
    findings = simulate(
        make_run,
        3,
        lambda m, levels: 0.1 * levels[0] + 0.05 * levels[1],
        factors={"a": "0123456789", "b": "01", "c": "01", "d": "01"},
    ).findings
    shown = [abs(np.log(finding.ratio)) for finding in findings if finding.shown]
    assert len(findings) <= 12
    assert shown == sorted(shown, reverse=True)
    assert {finding.factor for finding in findings} == {"a", "b", "c", "d"}


def test_no_finding_is_smaller_than_the_detectable_change(make_run: MakeRun) -> None:
    """Compare every shown finding with the run's detectable change."""
    for seed in range(30):
        analysis = simulate(make_run, seed, lambda m, levels: 0.03 * levels[0])
        for finding in analysis.findings:
            size = np.expm1(abs(np.log(finding.ratio)))
            assert not finding.shown or size >= analysis.detectable[finding.measure]


def test_effect_of_frame_size_on_a_frame_rate_is_not_a_finding(make_run: MakeRun) -> None:
    """Ignore the arithmetic effect of the frame size; report other factors at each size where they differ."""
    random = np.random.default_rng(3)
    factors = {"ndr.frame_size": ["64", "1518"], "machines.dut.forward": ["bridge", "xdp"]}

    def value(measure: str, levels: tuple[int, ...], block: int) -> dict[str, tuple[float, str]]:
        size, forward = levels
        log = -0.9 * size + (0.1 if size else 0.5) * forward + random.normal(0, 0.01)
        return {"forwarded_fps": (float(np.exp(13 + log)), "frame/s"), "lower_fps": (1.0, "frame/s")}

    baseline = {"ndr.frame_size": "64", "machines.dut.forward": "bridge"}
    found = analyse(*make_run(factors, 5, value, measures=["ndr"], baseline=baseline)).findings
    assert {each.factor for each in found} == {"machines.dut.forward"}
    assert [dict(each.conditions) for each in found] == [{"ndr.frame_size": "64"}, {"ndr.frame_size": "1518"}]
