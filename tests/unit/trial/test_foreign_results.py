"""What a measure of another package returns wrongly fails its trial, with package and reason."""

from dataclasses import replace
from typing import Any, Literal

import pytest
from tests.unit.trial.sites import bare_site
from tests.wording import in_words

from iolab.errors import UnsupportedError
from iolab.experiment.measures import Measure
from iolab.parts import registry
from iolab.parts.guard import guarded
from iolab.parts.rows import MeasureKind
from iolab.record.dimensions import Dimensions
from iolab.record.metric import Metric, Metrics
from iolab.trial import instrumented
from iolab.trial.failed import Failed
from iolab.trial.foreign_results import unit_in
from iolab.trial.measurement import Measured


class Other(Measure):
    """A measure of another package."""

    kind: Literal["other"] = "other"


GOOD: Any = Measured(Metrics([Metric("handshakes_per_s", "1/s", 5.0)]), (), 10**9, (), {"output": "text"})
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
CASES: dict[str, tuple[object, str]] = {
    "none": (None, "result is of type NoneType; allowed: Measured"),
    "a dict": ({"rate": 1}, "result is of type dict"),
    "metrics in a list": (replace(GOOD, metrics=[]), "metrics is of type list; allowed: Metrics"),
    "no metric": (replace(GOOD, metrics=Metrics()), "the result has no metric"),
    "raw object": (replace(GOOD, raw={"at": object()}), "cannot be stored as JSON: Object of type object"),
    "raw bytes": (replace(GOOD, raw=b"x"), "Object of type bytes"),
    "raw that is no number": (replace(GOOD, raw=[float("nan")]), "not JSON compliant"),
    "endless raw": (replace(GOOD, raw=ENDLESS), "Circular reference"),
    "negative time": (replace(GOOD, measured_ns=-1), "measured_ns is -1 ns; allowed: 0 to one year"),
    "absurd time": (replace(GOOD, measured_ns=10**30), "measured_ns is 1000"),
    "no whole time": (replace(GOOD, measured_ns=1.5), "measured_ns is of type float; allowed: int"),
    "endless name": (
        replace(GOOD, metrics=Metrics([Metric("x" * 100_000, "s", 1.0)])),
        "metric name is 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...;",
    ),
    "control characters": (
        replace(GOOD, metrics=Metrics([Metric("\x1b[2Jrate", "s", 1.0)])),
        r"metric name is '\x1b[2Jrate'",
    ),
    "unit of many letters": (
        replace(GOOD, metrics=Metrics([Metric("rate", "s" * 300, 1.0)])),
        "unit of rate is 'sss",
    ),
    "unit that contradicts": (
        replace(GOOD, metrics=Metrics([Metric("received_bps", "byte/s", 1.0)])),
        "metric received_bps has unit byte/s; its name says bit/s",
    ),
    "dimension with a bidirectional control": (
        replace(GOOD, metrics=Metrics([Metric("rate", "s", 1.0, Dimensions(part="a\u202eb"))])),
        r"part of rate is 'a\u202eb'",
    ),
    "warning in words": (replace(GOOD, warnings=("slow",)), "warnings is of type str; allowed: Warning"),
}


def measured(returned: Any, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Measure by a row of another package that returns this."""
    row: Any = MeasureKind(model=Other, duration_ns=lambda _: 1, measure=lambda *_: returned)
    kinds = {"other": replace(row, package="iolab-other 1.0")}
    monkeypatch.setattr(instrumented, "measure_kinds", lambda: {**registry.measure_kinds(), **kinds})
    return instrumented.measure_once(bare_site(), Other())


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_result_fails_the_trial_with_package_and_reason(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is."""
    returned, reason = CASES[case]
    with pytest.raises(Failed) as failed:
        measured(returned, monkeypatch)
    said = in_words(failed.value.failure)
    assert "kind other from package iolab-other 1.0" in said
    assert reason in said
    assert "defect of iolab" not in said
    assert len(said) < 1000


def test_a_right_result_is_recorded_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the version of its methods."""
    assert measured(GOOD, monkeypatch).metrics["handshakes_per_s"].value == 5.0


@pytest.mark.parametrize(
    ("name", "unit"),
    [("read_bytes_per_s", "byte/s"), ("sent_bps", "bit/s"), ("delay_ns", "ns"), ("handshakes", None)],
)
def test_the_end_of_a_name_says_its_unit(name: str, unit: str | None) -> None:
    """The longest end counts; most names say nothing."""
    assert unit_in(name) == unit


@pytest.mark.parametrize("duration", [-1, 10**30, True, 1.5, None])
def test_a_plan_is_not_timed_by_an_absurd_duration(duration: Any) -> None:
    """The command ends, and the package is named."""
    row: Any = MeasureKind(model=Other, duration_ns=lambda _: duration, measure=None)
    with pytest.raises(UnsupportedError, match=r"'duration_ns' of the kind 'other' from iolab-other 1.0"):
        guarded(replace(row, package="iolab-other 1.0")).duration_ns(Other())
