"""Numbers in the output of programs."""

import pytest

from iolab.experiment.commands import Figure
from iolab.trial.failed import Failed
from iolab.trial.programs.figures import figures_in, path_trouble, pattern_trouble


def figure(**keys: object) -> Figure:
    """Return a figure as a file has it."""
    return Figure.model_validate({"unit": "count", **keys})


def found(output: str, **keys: object) -> tuple[float, ...]:
    """Return the numbers of one figure."""
    return figures_in(output, {"it": figure(**keys)})["it"]


def why(output: str, **keys: object) -> str:
    """Return the code of what is wrong with one figure."""
    with pytest.raises(Failed) as caught:
        found(output, **keys)
    return caught.value.failure.code


def test_a_path_finds_the_number_to_the_digit() -> None:
    """As the program wrote it; a text that is a number counts too."""
    assert found('{"end": {"rate": 14018703649.34352}}', path="$.end.rate") == (14018703649.34352,)
    assert found('{"rate": "12.5"}', path="$.rate") == (12.5,)


def test_a_pattern_finds_its_group() -> None:
    """The only one, or that called value."""
    ab = "Requests per second:    1234.56 [#/sec] (mean)\nTime per request: 0.8 [ms]\n"
    assert found(ab, pattern=r"^Requests per second:\s+([0-9.]+)") == (1234.56,)
    assert found(ab, pattern=r"(Time|Space) per request: (?P<value>\S+)") == (0.8,)


@pytest.mark.parametrize(
    ("written", "unit", "number"),
    [("845.10us", "ms", 0.8451), ("1.2s", "ms", 1200.0), ("3.07ms", "ms", 3.07), ("1.5m", "s", 90.0),
     ("9.41 Gbits/sec", "bit/s", 9.41e9), ("941 Mbit/s", "Gbit/s", 0.941), ("12 MB", "MB", 12.0),
     ("1.25k", "1/s", 1250.0)],
)  # fmt: skip
def test_a_number_is_given_in_the_unit_of_its_figure(written: str, unit: str, number: float) -> None:
    """Programs choose the unit by the size of the number."""
    pattern = r"50% (?P<value>[\d.]+) ?(?P<unit>\S+)"
    assert found(f"50% {written}\n", pattern=pattern, unit=unit) == (number,)


@pytest.mark.parametrize(
    ("written", "pattern", "unit"),
    [("50% 845.10us", r"50% ([\d.]+)", "ms"), ("took 3 ms", r"took (\d+)", "s"),
     ("12 MB", r"(?P<value>\d+) (?P<unit>\w+)", "B"), ("1.2k", r"([\d.]+)", "1/s"),
     ("1.2.3s", r"(?P<value>[\d.]+)(?P<unit>s)", "ms")],
)  # fmt: skip
def test_a_number_of_another_unit_is_no_figure(written: str, pattern: str, unit: str) -> None:
    """It would be wrong by thousands, and look right; what MB means differs between programs."""
    assert why(written, pattern=pattern, unit=unit) == "figure-of-other-unit"


def test_a_word_behind_a_number_that_is_no_other_time_is_left_alone() -> None:
    """The same unit in other words, or something else."""
    assert found("took 3 secs", pattern=r"took (\d+)", unit="s") == (3.0,)
    assert found("3 k", pattern=r"(\d+)", unit="count") == (3.0,)
    assert found("12k", pattern=r"(\d+)", unit="kB") == (12.0,)
    assert found("3 m apart", pattern=r"(\d+)", unit="s") == (3.0,)
    assert found("99% 12ms", pattern=r"(\d+)%", unit="ratio") == (99.0,)


def test_a_column_of_csv_with_one_row_is_a_number() -> None:
    """Spaces after commas are no part of a name."""
    assert found("engine, rate\nio_uring, 4096\n", column="rate") == (4096.0,)


def test_a_figure_per_line_has_every_number_in_order() -> None:
    """By path, pattern and column alike."""
    several = {"per_line": "1s"}
    assert found('{"a": [1, 2, 3]}', path="$.a[*]", **several) == (1.0, 2.0, 3.0)
    assert found("t=1\nt=2\n", pattern=r"t=(\d)", **several) == (1.0, 2.0)
    assert found("v\n5\n6\n", column="v", **several) == (5.0, 6.0)


@pytest.mark.parametrize(
    ("output", "keys", "code"),
    [
        ("{}", {"path": "$.rate"}, "figure-absent"),
        ("nothing", {"pattern": r"rate (\d+)"}, "figure-absent"),
        ("", {"path": "$.rate"}, "figure-unread"),
        ("not json", {"path": "$.rate"}, "figure-unread"),
        ("[" * 100_000, {"path": "$.rate"}, "figure-unread"),
        ('{"a": [1, 2]}', {"path": "$.a[*]"}, "figure-ambiguous"),
        ("t=1 t=2", {"pattern": r"t=(\d)"}, "figure-ambiguous"),
        ('{"rate": true}', {"path": "$.rate"}, "figure-unread"),
        ('{"rate": null}', {"path": "$.rate"}, "figure-unread"),
        ('{"rate": 1e999}', {"path": "$.rate"}, "figure-unread"),
        ('{"rate": "nan"}', {"path": "$.rate"}, "figure-unread"),
        ("rate fast", {"pattern": r"rate (\w+)"}, "figure-unread"),
        ("a,b\n1,2\n", {"column": "c"}, "figure-unread"),
        ("a,b\n", {"column": "a"}, "figure-absent"),
        ("a,b\n1\n", {"column": "b"}, "figure-unread"),
    ],
)
def test_what_is_no_single_number_fails_with_its_reason(
    output: str, keys: dict[str, object], code: str
) -> None:
    """Never a figure by chance."""
    assert why(output, **keys) == code


def test_a_pattern_that_goes_back_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is bounded, however long the output is."""
    monkeypatch.setattr("iolab.trial.programs.figures.SEARCH_LIMIT_S", 0.05)
    assert why("a" * 5000 + "!", pattern=r"((?:a|a|aa)+)+$") == "search-too-long"


def test_what_is_no_path_or_pattern_is_known_before() -> None:
    """So that a file is refused, not a trial failed."""
    assert path_trouble("$.a[*].b") is None
    assert "end of query" in (path_trouble("$.a[") or "")
    assert pattern_trouble(r"rate (\d+)") is None
    assert pattern_trouble(r"rate \d+") == "0 groups"
    assert pattern_trouble(r"(a)(b)") == "2 groups"
    assert "missing" in (pattern_trouble("(") or "")
