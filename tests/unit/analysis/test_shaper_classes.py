"""Shaper checks per class: rates alone and under contention, and no verdict on effects of the host."""

import numpy as np
import pytest
from tests.unit.analysis.paced_flows import STOLEN, TEXT, sent

from iolab.analysis.shaper_check import SCALES_NS, Judged, Kind, judge
from iolab.analysis.shaper_classes import Kept
from iolab.experiment import Resolver, cells, parse
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.results.series import Over, Series


def judged(
    *flows: tuple[str, float, Series],
    qdisc: str = "pacer",
    ceil: str = "ceil: 60Mbit,",
    most_bps: float = 60e6,
    warnings: tuple[TrialWarning, ...] = (),
) -> Judged:
    """Return the result for a shaper whose port conforms to the sum of these flows."""
    experiment = parse(TEXT.replace("QDISC", qdisc).replace("CEIL", ceil), "file.yaml")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    mean_bps = sum(bps for _, bps, _ in flows)
    metrics = Metrics(
        Metric(name, "bit/s", value, Dimensions(direction="->far.eth0", window_ns=scale))
        for scale in SCALES_NS
        for name, value in (("window_rate_max_bps", most_bps), ("window_rate_mean_bps", mean_bps))
    )
    ((_, found),) = judge(setup, "tcp", metrics, [series for _, _, series in flows], warnings)
    return found


def of_class(found: Judged, name: str) -> dict[Kept, bool]:
    """Return the checks of a class and whether they hold; for windows, whether all do."""
    assert found.classes is not None
    (one,) = (each for each in found.classes if each.name == name)
    held: dict[Kept, bool] = {}
    for check in one.checks:
        held[check.what] = held.get(check.what, True) and check.held
    return held


def test_classes_that_get_their_rates_on_a_shared_line_pass() -> None:
    """Check each class by its own flow: at least its rate, at most its ceil, and no trains."""
    found = judged(sent("a", 40e6, (0, 1)), sent("b", 20e6, (0, 1)))
    assert of_class(found, "one") == {Kept.CEIL: True, Kept.SHARE: True, Kept.WINDOW: True}
    assert of_class(found, "two") == {Kept.CEIL: True, Kept.SHARE: True, Kept.WINDOW: True}
    assert found.verdict is Kind.PASSED


def test_class_below_its_rate_fails_even_if_the_port_conforms() -> None:
    """Detect it only by the classes, because the port conforms as a whole."""
    found = judged(sent("a", 30e6, (0, 1)), sent("b", 30e6, (0, 1)))
    assert all(check.held for check in found.checks)
    assert not of_class(found, "one")[Kept.SHARE]
    assert of_class(found, "two")[Kept.SHARE]
    assert found.verdict is Kind.FAILED


def test_class_that_sends_alone_gets_its_ceil() -> None:
    """Allow no more than the ceil; without a ceil the class keeps its rate."""
    assert of_class(judged(sent("a", 60e6, (0, 1))), "one")[Kept.ALONE]
    assert not of_class(judged(sent("a", 51e6, (0, 1))), "one")[Kept.ALONE]
    without = judged(sent("b", 20e6, (0, 1)), ceil="", most_bps=20e6)
    assert without.passed
    assert of_class(judged(sent("b", 24e6, (0, 1)), ceil="", most_bps=24e6), "two")[Kept.CEIL] is False


def test_class_alone_and_class_under_contention_are_judged_in_one_trial() -> None:
    """Start the second class in the middle."""
    first, second = sent("a", 60e6, (0, 0.5)), sent("a", 40e6, (0.5, 1))
    flow = first[2].dimensions
    both = Series(
        "window_bytes", "byte",
        np.concatenate([first[2].at_ns, second[2].at_ns[1:]]),
        np.concatenate([first[2].values, second[2].values[1:]]), flow, Over.WINDOWS, "watch",
    )  # fmt: skip
    found = of_class(judged(("a", 50e6, both), sent("b", 20e6, (0.5, 1))), "one")
    assert found == {Kept.CEIL: True, Kept.ALONE: True, Kept.SHARE: True, Kept.WINDOW: True}


def test_windows_at_the_start_and_end_of_a_class_do_not_lower_its_rate() -> None:
    """Ignore partial windows: half of two of 28 windows of 12 ms would be 3.6 %."""
    assert of_class(judged(sent("a", 60e6, (0.105, 0.435))), "one")[Kept.ALONE]
    assert of_class(judged(sent("a", 60e6, (0.105, 0.435)), sent("b", 20e6, (0.9, 1))), "one")[Kept.ALONE]


def test_trains_of_a_shaper_class_fail_the_check_unless_the_htb_burst_allows_them() -> None:
    """Count ten frames at once as nine too many for a pacer."""
    flows = sent("a", 40e6, (0, 1), train=10), sent("b", 20e6, (0, 1))
    assert not of_class(judged(*flows), "one")[Kept.WINDOW]
    assert of_class(judged(*flows), "two")[Kept.WINDOW]
    assert of_class(judged(*flows, qdisc="htb", ceil="ceil: 60Mbit, burst: 15K,"), "one")[Kept.WINDOW]


@pytest.mark.parametrize(
    ("warnings", "kind"), [((), Kind.FAILED), ((STOLEN,), Kind.NOT_JUDGED)], ids=["idle host", "cpu steal"]
)
def test_window_violation_during_cpu_steal_is_not_judged(
    warnings: tuple[TrialWarning, ...], kind: Kind
) -> None:
    """Give the reason; judge a rate that is missed over the whole trial even then."""
    flows = sent("a", 40e6, (0, 1), train=10), sent("b", 20e6, (0, 1))
    found = judged(*flows, most_bps=9e9, warnings=warnings)
    assert found.verdict is kind
    excuses = {check.excuse for check in found.checks if not check.held}
    assert excuses == ({STOLEN} if warnings else {None})
    unfair = judged(sent("a", 30e6, (0, 1)), sent("b", 30e6, (0, 1)), warnings=warnings)
    assert unfair.verdict is Kind.FAILED


def test_classes_are_not_judged_if_flows_are_not_distinguished() -> None:
    """Judge the port, name the missing key, and skip a class that sent nothing."""
    experiment = parse(TEXT.replace("QDISC", "pacer").replace("CEIL", ""), "file.yaml")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    metrics = Metrics(
        Metric(name, "bit/s", 60e6, Dimensions(direction="->far.eth0", window_ns=scale))
        for scale in SCALES_NS
        for name in ("window_rate_max_bps", "window_rate_mean_bps")
    )
    ((_, found),) = judge(setup, "tcp", metrics)
    assert found.classes is None
    assert found.passed
    assert of_class(judged(sent("a", 60e6, (0, 1))), "two") == {}
