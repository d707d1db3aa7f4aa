"""The table of methods: every metric has a row, and the metrics of every trial have current versions."""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import iolab.trial
from iolab.messages.notes import MethodsRaised
from iolab.results.metric import Method, Metric, Metrics, unit_of
from iolab.run.folder_work import raised_methods
from iolab.store.records import StoredRun
from iolab.trial import methods
from iolab.trial.methods import METHODS, method_of, version_of, with_methods

ROOM = Path(iolab.trial.__file__).parent
WORDS = ROOM.parent / "locale" / "en" / "report.toml"
KINDS = sorted({kind for row in METHODS for kind in row.kinds})


def metric_names() -> Iterator[str]:
    """Yield the metric names in the code; placeholders of an f-string become x.

    Of names that begin with a variable, the calls that give it are looked at: `_times("rtt", ...)`.
    """
    for path in sorted(ROOM.rglob("*.py")):
        module = ".".join(["iolab.trial", *path.relative_to(ROOM).with_suffix("").parts])
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="Metric"), attr="of"),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    yield name
                case ast.Call(func=ast.Name(id="_times"), args=[ast.Constant(value=str(name)), *_]):
                    yield f"{name}_p50_ns"
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="Metric"), attr="of"),
                    args=[ast.JoinedStr(values=[ast.Constant(), *_] as parts), *_],
                ):
                    yield "".join(
                        str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts
                    )
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="Metric"), attr="of"), args=[ast.Name(id=name), *_]
                ) if name.isupper():
                    yield getattr(import_module(module), name)
                case _:
                    pass


@pytest.mark.parametrize("name", sorted(set(metric_names())))
def test_every_metric_has_a_method_row(name: str) -> None:
    """Ignore the row for users' own figures."""
    rows = {row.name for kind in KINDS if (row := method_of(name, kind)) is not None}
    assert rows - {"program-figure"}, f"{name}: add a row to METHODS in python/iolab/trial/methods.py"


def test_method_names_are_unique_and_versions_start_at_1() -> None:
    """Check names that changelog and record use."""
    assert len({row.name for row in METHODS}) == len(METHODS)
    assert all(row.version >= 1 for row in METHODS)


@pytest.mark.parametrize("row", METHODS, ids=lambda row: row.name)
def test_no_method_row_hides_another(row: methods.MetricMethod) -> None:
    """Find each row by its names, although the first match counts."""
    for kind in row.kinds or ("no kind of iolab",):
        for name in row.metrics:
            assert method_of(name.replace("*", "x").replace("?", "1"), kind) is row


def test_loss_ratio_has_a_different_method_for_each_kind_of_measure() -> None:
    """Check datagrams, frames, echoes and transactions."""
    found = {kind: method_of("loss_ratio", kind) for kind in ("stream", "latency", "ping", "rr")}
    assert len({row.name for row in found.values() if row}) == 4


def test_trial_metrics_get_the_current_method_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace earlier versions."""
    raised = tuple(
        SimpleNamespace(**{**{f: getattr(row, f) for f in ("name", "metrics", "kinds")}, "version": 7})
        if row.name == "stream-jitter"
        else row
        for row in METHODS
    )
    monkeypatch.setattr(methods, "METHODS", raised)
    monkeypatch.setattr(methods, "_pattern", methods._pattern.__wrapped__)
    monkeypatch.setattr(methods, "version_of", version_of.__wrapped__)
    found = with_methods(
        [Metric("jitter_ns", "ns", 1.0), Metric("received_bps", "bit/s", 1.0, method=9)], "stream"
    )
    assert [metric.method for metric in found] == [7, 1]


def test_run_with_older_method_versions_lists_the_metrics_that_would_not_be_pooled() -> None:
    """List them by measure and versions; report nothing for current methods."""
    metrics = (Metric("received_bps", "bit/s", 1.0), Metric("retransmits", "count", 1.0))

    def run(*methods: Method) -> StoredRun:
        own = Metrics(replace(one, method=method) for one, method in zip(metrics, methods, strict=True))
        return SimpleNamespace(
            trials=[SimpleNamespace(measure="tcp", kind="stream", result=SimpleNamespace(metrics=own))] * 2
        )  # type: ignore[return-value]

    assert raised_methods(run(1, 1)) == ()
    assert raised_methods(run(None, None)) == (
        MethodsRaised(measure="tcp", metrics=("received_bps", "retransmits"), stored="unknown", newest="1"),
    )
    assert raised_methods(run(1, 9)) == (
        MethodsRaised(measure="tcp", metrics=("retransmits",), stored="9", newest="1"),
    )


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide a kind and an instrument of another package that state versions."""

    def kinds(stated: Mapping[str, int]) -> Mapping[str, SimpleNamespace]:
        return {"theirs": SimpleNamespace(methods=stated)}

    monkeypatch.setattr(methods, "measure_kinds", lambda: kinds({"theirs_per_s": 3, "queue_ratio": 4}))
    monkeypatch.setattr(methods, "instrument_kinds", lambda: kinds({"switches_per_s": 5}))


@pytest.mark.parametrize(
    ("metric", "version"),
    [("theirs_per_s", 3), ("queue_ratio", 4), ("switches_per_s", 5), ("unheard_of", 1), ("idle_ratio", 1)],
)
@pytest.mark.usefixtures("rows")
def test_plugin_row_states_its_method_versions(metric: str, version: int) -> None:
    """Prefer its versions to the table's; default to 1."""
    assert version_of.__wrapped__(metric, "theirs") == version


@pytest.mark.parametrize("name", sorted(tomllib.loads(WORDS.read_text())["metrics"]))
def test_every_described_metric_and_series_has_a_unit(name: str) -> None:
    """Use the suffix of its name, or the table of units."""
    assert unit_of(name)
