"""An invalid result of a plugin measure fails its trial, with package and reason."""

from dataclasses import replace
from typing import Any, Literal

import pytest
from tests.unit.trial.sites import bare_site
from tests.wording import in_words

from iolab.errors import InterruptedRun, TrialFailed, UnsupportedError
from iolab.experiment.model.measures import Measure
from iolab.registry import registry
from iolab.registry.guard import guarded
from iolab.registry.rows import MeasureKind
from iolab.results.metric import Dimensions, Metric, Metrics, unit_in
from iolab.trial import measuring
from iolab.trial.foreign_results import check_seen
from iolab.trial.instruments.instrument import Seen
from iolab.trial.measurement import Failed, Measured


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
        "metric received_bps has unit byte/s, but its name implies the unit bit/s",
    ),
    "dimension with a bidirectional control": (
        replace(GOOD, metrics=Metrics([Metric("rate", "s", 1.0, Dimensions(part="a\u202eb"))])),
        r"part of rate is 'a\u202eb'",
    ),
    "value that is no number": (
        replace(GOOD, metrics=Metrics([Metric("rate_bps", "bit/s", float("nan"))])),
        "rate_bps is of type nan; allowed: finite number",
    ),
    "many metrics": (
        replace(GOOD, metrics=Metrics([Metric(f"m{at}", "s", 1.0) for at in range(10_001)])),
        "metrics: 10001; allowed: at most 10000",
    ),
    "huge raw": (
        replace(GOOD, raw="x" * (64 << 20)),
        "bytes of raw output: 67108866; allowed: at most 67108864",
    ),
    "raw that no UTF-8 has": (replace(GOOD, raw={"at": "\ud800"}), "surrogates not allowed"),
    "no warnings": (
        replace(GOOD, warnings=None),
        "warnings is of type NoneType; allowed: tuple of TrialWarning",
    ),
    "command in words": (replace(GOOD, commands=("ls",)), "commands is of type str; allowed: CommandRecord"),
    "series of numbers": (replace(GOOD, series=(5,)), "series is of type int; allowed: Series"),
    "file elsewhere": (
        replace(GOOD, files={"/../../escaped": b"x"}),
        "end of a file name is '/../../escaped'",
    ),
    "file of text": (replace(GOOD, files={"a.txt": "x"}), "file a.txt is of type str; allowed: bytes"),
    "verdict in words": (replace(GOOD, verdict="fast"), "verdict is of type str; allowed: Verdict or None"),
    "packets in words": (replace(GOOD, packets="x"), "packets is of type str; allowed: PacketTrial or None"),
    "setting with an escape sequence": (
        replace(GOOD, in_effect={"pc": {"mtu": "\x1b[2J"}}),
        "in_effect is of type dict; allowed: a mapping from a place in the lab",
    ),
    "warning in words": (replace(GOOD, warnings=("slow",)), "warnings is of type str; allowed: TrialWarning"),
}


def measured(returned: Any, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Measure by a plugin row that returns this."""
    return measured_by(
        MeasureKind(model=Other, duration_ns=lambda _: 1, measure=lambda *_: returned), monkeypatch
    )


def measured_by(row: Any, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Measure by a plugin row."""
    kinds = {"other": replace(row, package="iolab-other 1.0")}
    monkeypatch.setattr(measuring, "measure_kinds", lambda: {**registry.measure_kinds(), **kinds})
    return measuring.measure_once(bare_site(), Other())


@pytest.mark.parametrize("case", CASES)
def test_invalid_result_of_a_plugin_measure_fails_the_trial_with_package_and_reason(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check results of the measure, and of its conclusion."""
    returned, reason = CASES[case]
    row: Any = MeasureKind(model=Other, duration_ns=lambda _: 1, measure=lambda *_: returned)
    with pytest.raises(Failed) as failed:
        measured_by(row, monkeypatch)
    concluding = replace(row, measure=lambda *_: None, conclude=lambda *_: returned)
    with pytest.raises(Failed) as concluded:
        measured_by(concluding, monkeypatch)
    assert concluded.value.failure == failed.value.failure
    said = in_words(failed.value.failure)
    assert "kind other from package iolab-other 1.0" in said
    assert reason in said
    assert "defect of iolab" not in said
    assert len(said) < 1000


class Mute(Exception):
    """An error whose message cannot be read."""

    def __str__(self) -> str:
        raise SystemExit(0)


def raising(error: BaseException) -> Any:
    """Return a function that raises this for any arguments."""

    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Mute(), "its error message cannot be read because __str__ raised SystemExit"),
        (ValueError("x" * 5_000_000), "xxx..."),
        (ValueError("\x1b[2J \u202e \ud800"), r"\x1b[2J \u202e \ud800"),
        (SystemExit("bye"), "bye"),
        (GeneratorExit(), "GeneratorExit"),
        (RecursionError("too deep"), "too deep"),
        (MemoryError(), "MemoryError"),
        (UnsupportedError("not here"), "not here"),
        (InterruptedRun("enough"), "enough"),
    ],
)
@pytest.mark.parametrize("concludes", [False, True])
def test_any_exception_of_a_plugin_measure_fails_the_trial_with_its_package(
    error: BaseException, said: str, concludes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Continue the run, and escape the message."""
    fail = raising(error)
    row: Any = MeasureKind(
        model=Other,
        duration_ns=lambda _: 1,
        measure=(lambda *_: "what was read") if concludes else fail,
        conclude=fail if concludes else None,
    )
    with pytest.raises(Failed) as failed:
        measured_by(row, monkeypatch)
    shown = in_words(failed.value.failure)
    assert "iolab-other 1.0" in shown
    assert said in shown
    assert "defect of iolab" not in shown
    assert len(shown) < 2000
    assert shown.isprintable()


def test_failure_text_of_a_plugin_is_shortened_and_printable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Use the package's own reason."""
    row: Any = MeasureKind(
        model=Other, duration_ns=lambda _: 1, measure=raising(TrialFailed("\x1b[2J" + "z" * 5_000_000))
    )
    with pytest.raises(TrialFailed) as failed:
        measured_by(row, monkeypatch)
    assert str(failed.value).startswith(r"\x1b[2Jzzz")
    assert len(str(failed.value)) < 2000


def test_keyboard_interrupt_during_a_plugin_measure_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not catch it as an error of the package."""
    row: Any = MeasureKind(model=Other, duration_ns=lambda _: 1, measure=raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        measured_by(row, monkeypatch)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (Seen(metrics=(Metric("rate_bps", "byte/s", 1.0),)), "metric rate_bps has unit byte/s"),
        (Seen(files={"../elsewhere": b"x"}), "end of a file name is '../elsewhere'"),
        (Seen(raw=object()), "cannot be stored as JSON"),
        (Seen(series=("x",)), "series is of type str"),  # type: ignore[arg-type]
    ],
)
def test_invalid_result_of_a_plugin_instrument_fails_the_trial(seen: Seen, reason: str) -> None:
    """Name the package."""
    with pytest.raises(Failed) as failed:
        check_seen("probe", "iolab-other 1.0", seen)
    assert "probe from package iolab-other 1.0" in in_words(failed.value.failure)
    assert reason in in_words(failed.value.failure)


def test_valid_result_of_a_plugin_is_recorded_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the version of its methods."""
    assert measured(GOOD, monkeypatch).metrics["handshakes_per_s"].value == 5.0


@pytest.mark.parametrize(
    ("name", "unit"),
    [("read_bytes_per_s", "byte/s"), ("sent_bps", "bit/s"), ("delay_ns", "ns"), ("handshakes", None)],
)
def test_suffix_of_a_metric_name_determines_its_unit(name: str, unit: str | None) -> None:
    """Use the longest suffix; return none for most names."""
    assert unit_in(name) == unit


@pytest.mark.parametrize("duration", [-1, 10**30, True, 1.5, None])
def test_absurd_duration_from_a_plugin_is_refused(duration: Any) -> None:
    """End the command, and name the package."""
    row: Any = MeasureKind(model=Other, duration_ns=lambda _: duration, measure=None)
    with pytest.raises(UnsupportedError, match=r"'duration_ns' of kind 'other' from iolab-other 1.0"):
        guarded(replace(row, package="iolab-other 1.0")).duration_ns(Other())
