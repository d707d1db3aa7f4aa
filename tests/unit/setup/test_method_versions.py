"""A metric's code that changes without a raised version fails here; changes without effect do not."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from code_digests import Code
from method_versions import CHANGELOG, RECORD, changes, recorded, without_line, written

from iolab.trial.methods import METHODS, MetricMethod

ROOT = Path(__file__).parents[3]
FIGURES = "python/iolab/trial/streams/figures.py"
HISTOGRAM = "crates/engine/src/histogram.rs"
TREE = Code(ROOT)
BEFORE = recorded((ROOT / RECORD).read_text())


def text(path: str) -> str:
    """Return a file of the tree."""
    return (ROOT / path).read_text(encoding="utf-8")


def changed(path: str, old: str, new: str) -> Mapping[str, str]:
    """Return the tree's file with exactly one change."""
    assert old in text(path)
    return {path: text(path).replace(old, new)}


@cache
def files_behind(row: MetricMethod) -> frozenset[str]:
    """Return the files with the code of a method."""
    keys = (key for reference in row.code for key in TREE.behind(reference))
    return frozenset(
        key.partition(":")[0]
        if key.startswith("crates/")
        else f"python/{key.partition(':')[0].replace('.', '/')}.py"
        for key in keys
    )


def found(tree: Mapping[str, str], *, all_rows: bool = False) -> list[str]:
    """Return the methods whose code differs from the record, among those in changed files."""
    rows = [row for row in METHODS if all_rows or files_behind(row) & set(tree)]
    assert rows
    return sorted(one.method.name for one in changes(rows, Code(ROOT, tree), BEFORE))


def test_code_of_every_method_matches_the_recorded_digest() -> None:
    """Include a remedy in the message."""
    assert [str(one) for one in changes(METHODS, TREE, BEFORE)] == []


def makers() -> Iterator[str]:
    """Yield the functions of `iolab.trial` that create a metric, as module:name."""
    for path in sorted((ROOT / "python" / "iolab" / "trial").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "python").with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            parts: list[ast.stmt] = node.body if isinstance(node, ast.ClassDef) else [node]
            for part in filter(lambda one: isinstance(one, ast.FunctionDef), parts):
                calls = (one.func for one in ast.walk(part) if isinstance(one, ast.Call))
                if any(isinstance(func, ast.Name) and func.id == "Metric" for func in calls):
                    inside = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                    yield f"{module}:{inside}{getattr(part, 'name', '')}"


@pytest.mark.parametrize("maker", sorted(makers()))
def test_every_function_that_creates_a_metric_belongs_to_a_method(maker: str) -> None:
    """Refuse a row without the code of its metrics, which would never change."""
    assert maker in BEFORE.code, f"{maker}: add it to the code of its row in python/iolab/trial/methods.py"


def test_every_raised_method_version_has_a_changelog_line() -> None:
    """Check the section "Figures may change"."""
    assert list(without_line(METHODS, (ROOT / CHANGELOG).read_text())) == []


@pytest.mark.parametrize(
    ("path", "old", "new", "method"),
    [
        (FIGURES, "sum(rtts) / len(rtts)", "max(rtts)", "stream-rtt"),
        (FIGURES, "sum(rates) ** 2", "sum(rates)", "stream-fairness"),  # in a function that a root calls
        ("python/iolab/trial/streams/iperf3_report.py", "not row.omitted", "row.omitted", "stream-rtt"),
        ("python/iolab/trial/round_trips/figures.py", '"p50": 0.5', '"p50": 0.6', "ping-rtt"),  # a constant
        ("python/iolab/results/search.py", "self.lost_frames / self.offered_frames", "0.0", "frame-loss"),
        (HISTOGRAM, "self.count", "self.sum", "ping-rtt"),
    ],
)  # fmt: skip
def test_change_of_a_computation_is_detected(path: str, old: str, new: str, method: str) -> None:
    """Change a root, a function that it calls, a constant, a type, and Rust code."""
    assert method in found(changed(path, old, new))


def test_change_deep_in_the_call_graph_is_detected() -> None:
    """Change a constant of the search, three calls below the row's code, in a relative import."""
    tree = changed("python/iolab/trial/search/estimates.py", "SPARE = ", "SPARE = 2 * ")
    assert found(tree) == ["searched-rate"]


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (FIGURES, "sum(rtts) / len(rtts)", "sum(  rtts ) / len( rtts  # the mean\n )"),
        (FIGURES, "rtts", "round_trips"),
        (FIGURES, "again", "resent"),
        (FIGURES, "Return Jain's fairness index", "Return the index"),
        (FIGURES, "def jain_index(rates: Sequence[float]) -> float:", "def jain_index(rates: list[float]):"),
        (FIGURES, "from iolab.results.metric import", "import math\nfrom iolab.results.metric import"),
        ("python/iolab/trial/streams/iperf3_report.py", "trial.datagrams-counted-at-one-end", "trial.of-one-end"),
        (HISTOGRAM, "//", "// see the RFC:"),
        (HISTOGRAM, "    ", "  "),
        (HISTOGRAM, "pub fn", "pub(crate) fn"),
        (HISTOGRAM, "#[cfg(test)]\nmod tests {", "#[cfg(test)]\nmod tests {\n    const MORE: u8 = 1;\n"),
    ],
)  # fmt: skip
def test_change_of_formatting_comments_or_names_is_ignored(path: str, old: str, new: str) -> None:
    """Change formatting, comments, local names, docstrings, annotations, imports, messages, visibility and tests."""
    assert found(changed(path, old, new)) == []


def test_moved_code_counts_as_unchanged() -> None:
    """Move a function to a different module, and the module to a different package."""
    figures = text(FIGURES)
    at = figures.index("def jain_index"), figures.index("def _udp_metrics")
    moved = {
        FIGURES: figures[: at[0]].replace(
            "from iolab.trial.streams.", "from iolab.trial.shares import jain_index\nfrom iolab.trial.streams."
        ) + figures[at[1] :],
        "python/iolab/trial/shares.py": "from collections.abc import Sequence\n\n" + figures[at[0] : at[1]],
    }  # fmt: skip
    assert found(moved, all_rows=True) == []
    moved["python/iolab/trial/shares.py"] = moved["python/iolab/trial/shares.py"].replace("** 2", "** 3")
    assert "stream-fairness" in found(moved)


def test_change_message_states_the_function_and_the_remedy() -> None:
    """Offer raising the version with a changelog line, or recording that no figure changes."""
    tree = changed(FIGURES, "sum(rtts) / len(rtts)", "max(rtts)")
    (row,) = (row for row in METHODS if row.name == "stream-rtt")
    (one,) = changes([row], Code(ROOT, tree), BEFORE)
    for part in (
        "streams.figures:_tcp_metrics",
        "raise the version in",
        "CHANGELOG.md",
        "--accept",
        "--unchanged",
    ):
        assert part in str(one)


def test_raised_method_version_is_accepted_after_it_is_recorded() -> None:
    """Record version and code together."""
    tree = changed(FIGURES, "sum(rtts) / len(rtts)", "max(rtts)")
    streams = (row for row in METHODS if "stream" in row.kinds)
    table = tuple(replace(row, version=9) if row.name == "stream-rtt" else row for row in streams)
    open_ones = {one.method.name: one.raised for one in changes(table, Code(ROOT, tree), BEFORE)}
    assert open_ones.pop("stream-rtt")
    assert open_ones
    assert not any(open_ones.values())
    after = recorded(written(table, Code(ROOT, tree)))
    assert list(changes(table, Code(ROOT, tree), after)) == []


def test_lowered_method_version_is_refused() -> None:
    """Prevent new figures that look like old ones."""
    later = replace(BEFORE, versions={**BEFORE.versions, "stream-rtt": 99})
    (one,) = changes(METHODS, TREE, later)
    assert (one.method.name, one.raised) == ("stream-rtt", False)


def test_method_with_two_record_lines_after_a_merge_must_be_recorded_again() -> None:
    """Use the higher version, and accept no digest, after merging two branches."""
    text_of = (ROOT / RECORD).read_text()
    line = next(one for one in text_of.splitlines() if "figures:_tcp_metrics" in one)
    other = f'{line.partition(" = ")[0]} = "0123456789abcdef"'
    merged = recorded(f"{text_of}{other}\nstream-rtt = 98\nstream-rtt = 99\n")
    assert merged.versions["stream-rtt"] == 99
    (row,) = (row for row in METHODS if row.name == "stream-rtt")
    (one,) = changes([row], TREE, merged)
    assert "iolab.trial.streams.figures:_tcp_metrics" in one.changed
    assert recorded(text_of + line) == BEFORE


def test_raised_method_version_without_a_changelog_line_is_named() -> None:
    """Ignore a line elsewhere in the changelog, or of a different version."""
    table = (replace(METHODS[0], version=2),)
    head = "## [Unreleased]\n\n"
    for text_of in (
        f"{head}### Added\n\n- `stream-rate` 2: more\n",
        f"{head}### Figures may change\n\n- `stream-rate` 3: more\n",
        f"{head}### Figures may change\n\n### Fixed\n\n- `stream-rate` 2: more\n",
    ):
        assert len(list(without_line(table, text_of))) == 1
    assert list(without_line(table, f"{head}### Figures may change\n\n- `stream-rate` 2: more\n")) == []


def test_row_that_names_missing_code_raises_lookup_error() -> None:
    """Prevent a method without code after a typing error."""
    for reference in (
        "iolab.trial.streams.figures:no_such",
        "crates/engine/src/none.rs",
        f"{HISTOGRAM}:no_such",
    ):
        with pytest.raises(LookupError):
            Code(ROOT).behind(reference)
