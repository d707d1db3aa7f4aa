"""Numbers in the output of programs."""

import pytest

from iolab.experiment.model.measures import Figure
from iolab.trial.measurement import Failed
from iolab.trial.programs.figures import figures_in, path_trouble, pattern_trouble


def figure(**keys: object) -> Figure:
    """Return a figure as in a file."""
    return Figure.model_validate({"unit": "count", **keys})


def found(output: str, **keys: object) -> tuple[float, ...]:
    """Return the numbers of one figure."""
    return figures_in(output, {"it": figure(**keys)})["it"]


def why(output: str, **keys: object) -> str:
    """Return the error code of one figure."""
    with pytest.raises(Failed) as caught:
        found(output, **keys)
    return caught.value.failure.code


def test_number_found_by_a_path_is_read_without_rounding() -> None:
    """Also accept a text that is a number."""
    assert found('{"end": {"rate": 14018703649.34352}}', path="$.end.rate") == (14018703649.34352,)
    assert found('{"rate": "12.5"}', path="$.rate") == (12.5,)


def test_pattern_finds_the_number_in_its_group() -> None:
    """Use the only group, or the group named value."""
    ab = "Requests per second:    1234.56 [#/sec] (mean)\nTime per request: 0.8 [ms]\n"
    assert found(ab, pattern=r"^Requests per second:\s+([0-9.]+)") == (1234.56,)
    assert found(ab, pattern=r"(Time|Space) per request: (?P<value>\S+)") == (0.8,)


@pytest.mark.parametrize(
    ("written", "unit", "number"),
    [("845.10us", "ms", 0.8451), ("1.2s", "ms", 1200.0), ("3.07ms", "ms", 3.07), ("1.5m", "s", 90.0),
     ("9.41 Gbits/sec", "bit/s", 9.41e9), ("941 Mbit/s", "Gbit/s", 0.941), ("12 MB", "MB", 12.0),
     ("1.25k", "1/s", 1250.0), ("1.25Mops", "1/s", 1.25e6), ("90 minutes", "s", 5400.0)],
)  # fmt: skip
def test_number_is_converted_to_the_unit_of_its_figure(written: str, unit: str, number: float) -> None:
    """Handle programs that choose the unit by size."""
    pattern = r"50% (?P<value>[\d.]+) ?(?P<unit>\S+)"
    assert found(f"50% {written}\n", pattern=pattern, unit=unit) == (number,)


@pytest.mark.parametrize(
    ("written", "pattern", "unit"),
    [("50% 845.10us", r"50% ([\d.]+)", "ms"), ("took 3 ms", r"took (\d+)", "s"),
     ("12 MB", r"(?P<value>\d+) (?P<unit>\w+)", "B"), ("1.2k", r"([\d.]+)", "1/s"),
     ("3.2MiB/s", r"([\d.]+)", "1/s"), ("3.2 MiB/s", r"([\d.]+)", "bit/s"), ("3.5%", r"([\d.]+)", "ratio"),
     ("3.5 %", r"([\d.]+)", "ratio"), ("9.41 Gbits/sec", r"([\d.]+)", "bit/s"), ("12 MB/s", r"(\d+)", "MiB/s"),
     ("12ms", r"(\d+)", "count"), ("12 MB/s", r"(\d+)", "MB"), ("3.2 Gb/s", r"([\d.]+)", "B/s"),
     ("3 minutes", r"(\d+)", "s"), ("12 milliseconds", r"(\d+)", "s"), ("5 Mops", r"(\d+)", "1/s"),
     ("5 kIOPS", r"(\d+)", "count"), ("5 Mb/s", r"(\d+)", "bit/s")],
)  # fmt: skip
def test_number_with_an_incompatible_unit_is_refused(written: str, pattern: str, unit: str) -> None:
    """Refuse ambiguous MB."""
    assert why(written, pattern=pattern, unit=unit) == "figure-of-other-unit"


def test_word_after_a_number_is_ignored_unless_it_is_a_different_time_unit() -> None:
    """Accept different words of the same unit."""
    assert found("took 3 secs", pattern=r"took (\d+)", unit="s") == (3.0,)
    assert found("3 k", pattern=r"(\d+)", unit="count") == (3.0,)
    assert found("12k", pattern=r"(\d+)", unit="kB") == (12.0,)
    assert found("3 m apart", pattern=r"(\d+)", unit="s") == (3.0,)
    assert found("3 s apart", pattern=r"(\d+)", unit="count") == (3.0,)
    assert found("12 ms of it", pattern=r"(\d+)", unit="steps") == (12.0,)
    assert found("12.5 MB/sec", pattern=r"([\d.]+)", unit="MB/s") == (12.5,)
    assert found("5 ops", pattern=r"(\d+)", unit="count") == (5.0,)
    assert found("5 IOPS", pattern=r"(\d+)", unit="1/s") == (5.0,)
    assert found("12 345", pattern=r"(\d+)$", unit="count") == (345.0,)
    assert found("99% 12ms", pattern=r"(\d+)%", unit="%") == (99.0,)


def test_percentage_is_converted_to_a_ratio() -> None:
    """Convert it if the pattern has the unit."""
    assert found("busy 3.5%", pattern=r"(?P<value>[\d.]+)(?P<unit>%)", unit="ratio") == (0.035,)


@pytest.mark.parametrize(
    ("output", "pattern"),
    [("rate 1,234.5", r"rate (\d+)"), ("rate 1,234.5", r"([\d.]+)$"), ("1.5e+06 ops", r"([\d.]+)"),
     ("x 1.5e+06 ops", r"\+(\d+)"), ("drift -5", r"(\d+)"), ("drift=-5", r"(\d+)"), ("drift -5", r"-(\d+)"),
     ("drift \u22125", r"(\d+)"), ("12.5", r"(\d+)"), ("12.5", r"\.(\d+)"), ("12.5", r"^(\d)"), ("1_000", r"^(\d+)"),
     ("1'234", r"^(\d+)"), ("1\u202f234", r"(\d+)$"), ("0x1f", r"^(\d)"), ("took .5", r"(\d+)"), ("1,5 ms", r"^(\d+)"),
     ("12\uff13", r"([0-9]+)"), ("rate 1,234", r"rate (\d+)\D"), ("1.234.567", r"^(\d+)"),
     ("1 000 000", r"(\d+)$")],
)  # fmt: skip
def test_pattern_that_matches_only_a_part_of_a_number_is_refused(output: str, pattern: str) -> None:
    """Refuse a part of a number."""
    assert why(output, pattern=pattern) == "figure-cut"


@pytest.mark.parametrize(
    ("output", "pattern", "number"),
    [("5,123,7", r"^\d+,(\d+),", 123.0), ("5,123,7", r"^(\d+),", 5.0), ("range 3-5", r"-(\d+)", 5.0),
     ("fio-3.33", r"-([\d.]+)", 3.33), ("took 12.", r"(\d+)", 12.0), ("a=12,b=3", r"a=(\d+)", 12.0),
     ("p99 7", r"p(\d+)", 99.0), ("[1:30]", r"\[(\d+)", 1.0), ("drift -5", r"drift (\S+)", -5.0),
     ("1.5e+06 ops", r"(\S+) ops", 1.5e6), ("+5", r"(\d+)", 5.0), ("2026-11-25", r"-(\d+)-", 11.0),
     ("6.12.95+deb12", r"^6[.](\d+)", 12.0), ("sees 198.18.0.1/run", r"198.18.0.(\d+)", 1.0)],
)  # fmt: skip
def test_whole_number_next_to_other_text_is_accepted(output: str, pattern: str, number: float) -> None:
    """Accept a comma in the pattern, and a dash after a letter or digit."""
    assert found(output, pattern=pattern) == (number,)


def test_long_comma_separated_lines_are_read_in_linear_time() -> None:
    """Check the text around each number only."""
    text = ",".join(["12"] * 100_000)
    assert len(found(text, pattern=r"(\d+)(?:,|$)", per_line="1s")) == 100_000


def test_standard_error_is_shown_if_the_output_lacks_the_figure() -> None:
    """Quote it, because it often has the reason."""
    with pytest.raises(Failed) as caught:
        figures_in("", {"rate": figure(pattern=r"rate (\d+)")}, "connection refused\n")
    assert caught.value.failure.code == "figure-absent-errors"
    assert "connection refused" in str(caught.value)


def test_csv_column_with_one_row_is_a_number() -> None:
    """Strip spaces after commas."""
    assert found("engine, rate\nio_uring, 4096\n", column="rate") == (4096.0,)


def test_figure_printed_on_each_line_has_every_number_in_order() -> None:
    """Check path, pattern and column."""
    several = {"per_line": "1s"}
    assert found('{"a": [1, 2, 3]}', path="$.a[*]", **several) == (1.0, 2.0, 3.0)
    assert found("t=1\nt=2\n", pattern=r"t=(\d)", **several) == (1.0, 2.0)
    assert found("v\n5\n6\n", column="v", **several) == (5.0, 6.0)


@pytest.mark.parametrize(
    ("output", "keys", "code"),
    [
        ("{}", {"path": "$.rate"}, "figure-absent"),
        ("nothing", {"pattern": r"rate (\d+)"}, "figure-absent"),
        ("", {"path": "$.rate"}, "output-malformed"),
        ("not json", {"path": "$.rate"}, "output-malformed"),
        ("[" * 100_000, {"path": "$.rate"}, "output-malformed"),
        ('{"rate": 1, "rate": 2}', {"path": "$.rate"}, "output-malformed"),
        ('{"end": {"rate": 1, "x": 0, "rate": 2}}', {"path": "$.end.rate"}, "output-malformed"),
        ('{"rate": "1_000"}', {"path": "$.rate"}, "figure-unread"),
        ('{"rate": "\uff11\uff12"}', {"path": "$.rate"}, "figure-unread"),
        ("rate \u0661\u0662", {"pattern": r"rate (\d+)"}, "figure-unread"),
        ("rate 1_000", {"pattern": r"rate (\S+)"}, "figure-unread"),
        ("rate 1_000ms", {"pattern": r"rate (?P<value>\w+?)(?P<unit>ms)", "unit": "s"}, "figure-unread"),
        ("50% 1.2.3s", {"pattern": r"% (?P<value>[\d.]+)(?P<unit>s)", "unit": "ms"}, "figure-unread"),
        ("v\n1_000\n", {"column": "v"}, "figure-unread"),
        ("a,a\n1,2\n", {"column": "a"}, "output-malformed"),
        ("a,b\n1,2,3\n", {"column": "a"}, "output-malformed"),
        ('{"a": [1, 2]}', {"path": "$.a[*]"}, "figure-ambiguous"),
        ("t=1 t=2", {"pattern": r"t=(\d)"}, "figure-ambiguous"),
        ('{"rate": true}', {"path": "$.rate"}, "figure-unread"),
        ('{"rate": null}', {"path": "$.rate"}, "figure-unread"),
        ('{"rate": 1e999}', {"path": "$.rate"}, "figure-unread"),
        ('{"rate": "nan"}', {"path": "$.rate"}, "figure-unread"),
        ("rate fast", {"pattern": r"rate (\w+)"}, "figure-unread"),
        ("a,b\n1,2\n", {"column": "c"}, "output-malformed"),
        ("a,b\n", {"column": "a"}, "figure-absent"),
        ("a,b\n1\n", {"column": "b"}, "figure-unread"),
    ],
)
def test_output_without_a_single_number_fails_with_its_reason(
    output: str, keys: dict[str, object], code: str
) -> None:
    """Never return an arbitrary number."""
    assert why(output, **keys) == code


def test_pattern_with_catastrophic_backtracking_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the time for any output length."""
    monkeypatch.setattr("iolab.trial.programs.figures.SEARCH_LIMIT_S", 0.05)
    assert why("a" * 5000 + "!", pattern=r"((?:a|a|aa)+)+$") == "search-too-long"


def test_invalid_path_or_pattern_is_detected_before_the_run() -> None:
    """Refuse the file, instead of failing a trial."""
    assert path_trouble("$.a[*].b") is None
    assert "end of query" in (path_trouble("$.a[") or "")
    assert pattern_trouble(r"rate (\d+)") is None
    assert str(pattern_trouble(r"rate \d+")) == "0 groups"
    assert str(pattern_trouble(r"(a)(b)")) == "2 groups"
    assert "missing" in str(pattern_trouble("("))
