"""Old names of every sort: from the file, record or package with them to their effect."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.stated import codes
from tests.unit.plan.conftest import facts  # noqa: F401 - a fixture
from tests.unit.store.examples import record

from iolab import aliases
from iolab.aliases import Alias, OldName, Sort
from iolab.analysis.published_file import FIXED, parse_published
from iolab.cli.main import run
from iolab.errors import ExitCode, InputError
from iolab.experiment import Resolver, cells, parse
from iolab.lab.hosts.facts import Facts
from iolab.messages.statement import Statement
from iolab.messages.warnings import CountersMissing, TrialWarning
from iolab.plan.planning import make_plan
from iolab.results.encoding import Encoding
from iolab.results.metric import Dimensions, Metric, Metrics, Quantity
from iolab.results.series import series
from iolab.store import codec
from iolab.store.codec import TrialReader, encode_trial
from iolab.store.records import SAMPLES, SERIES
from iolab.store.series import encode_series, read_series

Table = Callable[..., None]
NOW, LONG_AGO = "0.2", "0.0"
"""A version with an active rename, and one whose rename has expired."""
LAB = """title: Old names
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {x: {ends: [a.p, b.p], largest_frame: 1500}}
measure:
  tcp: {kind: stream, from: a, to: b, socket_buffer: 128K}
factors:
  tcp.socket_buffer: [128K, 1M]
  links.x: {small: {ends: [a.p, b.p], largest_frame: 1400}}
baseline: {tcp.socket_buffer: 128K}
"""
KEYS = (
    {"sort": Sort.YAML_KEY, "within": "measure.*", "old": "socket_buffer", "new": "window", "kind": "stream"},
    {"sort": Sort.YAML_KEY, "within": "lab.links.*", "old": "largest_frame", "new": "mtu"},
)


def stored_line(*, warnings: tuple[TrialWarning, ...] = (), metrics: Metrics | None = None) -> str:
    """Return the stored line of the trial."""
    whole = record("k")
    result = replace(whole.result, warnings=warnings, metrics=metrics or whole.result.metrics)
    return encode_trial(replace(whole, result=result))


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """Fill the table of aliases."""

    def fill(*rows: dict[str, Any], since: str = NOW) -> None:
        monkeypatch.setattr(aliases, "ALIASES", tuple(Alias(**row, since=since) for row in rows))

    return fill


# the table


def trouble(row: Alias) -> str:
    """Return the error of a row; empty: none."""
    if row.old == row.new:
        return "both names are the same"
    known: Collection[str]
    match row.sort:
        case Sort.CODE:
            known = codes(Statement)
        case Sort.JSON_KEY:
            known = json_keys(row.within)
        case Sort.YAML_KEY:
            return "" if row.within.partition(".")[0] in ("lab", "measure") else f"no place {row.within}"
        case Sort.CSV_COLUMN:
            known = (*FIXED, "over", "part", "block_bytes")
        case Sort.IMPORT:
            module, _, name = row.new.partition(":")
            return "" if not name or hasattr(import_module(module), name) else f"no {row.new}"
    if row.new not in known or row.old in known:
        return f"{row.new} is none, or {row.old} is still one"
    return ""


def json_keys(within: str) -> Collection[str]:
    """Return the keys of a record type, or of a statement by its code."""
    statements = codes(Statement)
    if within in statements:
        return tuple(statements[within].model_fields)
    from tests.unit.store.drawn import RECORDS

    return tuple(each.name for kind in RECORDS if kind.__name__ == within for each in fields(kind))


def test_every_alias_row_leads_from_a_removed_name_to_an_existing_one() -> None:
    """Refuse rows without effect, and rows that hide an existing name."""
    assert [(row, wrong) for row in aliases.ALIASES if (wrong := trouble(row))] == []


@pytest.mark.parametrize(
    ("sort", "old", "new", "within"),
    [
        (Sort.CODE, "was", "is-no-code", ""),
        (Sort.CODE, "counters-missing", "counters-disagree", ""),
        (Sort.JSON_KEY, "was", "no_key", "Metric"),
        (Sort.JSON_KEY, "unit", "name", "Metric"),
        (Sort.JSON_KEY, "was", "name", "NoSuchType"),
        (Sort.YAML_KEY, "was", "window", "factors.*"),
        (Sort.CSV_COLUMN, "was", "no_column", ""),
        (Sort.IMPORT, "iolab.plugin:Was", "iolab.plugin:NoSuchName", ""),
        (Sort.CODE, "emulated", "emulated", ""),
    ],
)
def test_invalid_alias_row_is_detected(sort: Sort, old: str, new: str, within: str) -> None:
    """Check the check."""
    assert trouble(Alias(sort=sort, old=old, new=new, within=within, since=NOW))


def test_old_name_is_accepted_only_until_the_next_minor_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Accept it in earlier development versions, too."""
    row = Alias(sort=Sort.CODE, old="a", new="b", since="0.10")
    found = {}
    for version in ("0.9.3", "0.10.0", "0.10.7", "0.11.0", "1.0.0"):
        monkeypatch.setattr(aliases, "__version__", version)
        found[version] = row.accepted
    assert found == {"0.9.3": True, "0.10.0": True, "0.10.7": True, "0.11.0": False, "1.0.0": False}


# records: accepted for ever, without a notice


@pytest.mark.parametrize("since", [NOW, LONG_AGO])
def test_record_with_an_old_statement_code_can_be_read(table: Table, since: str) -> None:
    """Accept it in any version, because stored records cannot change."""
    table({"sort": Sort.CODE, "old": "counters-gone", "new": "counters-missing"}, since=since)
    line = stored_line(warnings=(CountersMissing(place="a.p"),))
    assert '"counters-missing"' in line
    read = TrialReader().read(line.replace("counters-missing", "counters-gone"))
    assert read.result.warnings == (CountersMissing(place="a.p"),)


def test_old_parameter_of_a_statement_is_read_in_a_record(table: Table) -> None:
    """Accept it with the old code, too."""
    table(
        {"sort": Sort.CODE, "old": "counters-gone", "new": "counters-missing"},
        {"sort": Sort.JSON_KEY, "within": "counters-missing", "old": "where", "new": "place"},
    )
    assert TrialWarning.model_validate({"code": "counters-gone", "where": "a.p"}) == CountersMissing(
        place="a.p"
    )


@pytest.mark.parametrize("since", [NOW, LONG_AGO])
def test_old_key_of_a_record_is_read(table: Table, since: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a metric and its dimensions in trials.jsonl; refuse unknown keys."""
    table(
        {"sort": Sort.JSON_KEY, "within": "Metric", "old": "figure", "new": "value"},
        {"sort": Sort.JSON_KEY, "within": "Dimensions", "old": "at_load", "new": "load_ratio"},
        since=since,
    )
    monkeypatch.setattr(codec, "_TRIAL", Encoding(codec._TrialLine, defaults=True))
    metric = Metric("loss_ratio", "ratio", 0.25, Dimensions(load_ratio=1.1))
    line = stored_line(metrics=Metrics([metric]))
    old = line.replace('"value"', '"figure"').replace('"load_ratio"', '"at_load"')
    assert old != line
    for text in (line, old):
        assert list(TrialReader().read(text).result.metrics) == [metric]
    with pytest.raises(ValueError, match="number"):
        TrialReader().read(line.replace('"value"', '"number"'))


def test_old_dimension_name_is_read_in_a_table_of_series(table: Table, tmp_path: Path) -> None:
    """Check the column name."""
    import pyarrow as pa
    from pyarrow import parquet

    stored = series("cpu_busy_ratio", "ratio", [(0, 0.5)], Dimensions(cpu=1))
    place = tmp_path / SAMPLES / f"k{SERIES}"
    place.parent.mkdir()
    read = parquet.read_table(pa.BufferReader(encode_series([stored])))
    names = ["processor" if name == "cpu" else name for name in read.column_names]
    parquet.write_table(read.rename_columns(names).replace_schema_metadata(read.schema.metadata), place)
    table({"sort": Sort.JSON_KEY, "within": "Dimensions", "old": "processor", "new": "cpu"})
    assert read_series(tmp_path, "k") == (stored,)


# experiment files


def test_old_keys_of_an_experiment_file_are_accepted_with_a_notice_each(table: Table) -> None:
    """Check a measure, a link, the value of a level, and a factor's path, which keeps its name."""
    table(*KEYS)
    with pytest.warns(OldName) as noticed:
        experiment = parse(LAB, "old.yaml")
    assert sorted({str(each.message).partition(":")[2].partition(":")[0] for each in noticed}) == [
        "4", "6", "8", "9",
    ]  # fmt: skip
    assert str(noticed[0].message).endswith("the old name is accepted until iolab 0.3")
    assert [factor.name for factor in experiment.factors] == ["tcp.socket_buffer", "links.x"]
    resolver = Resolver(experiment)
    setups = [resolver.setup(cell) for cell in cells(experiment)]
    windows = {setup.measures["tcp"].window for setup in setups}  # type: ignore[attr-defined]
    assert windows == {128 * 1024, 1024 * 1024}
    assert {setup.lab.links["x"].mtu for setup in setups} == {1400}


def test_experiment_files_with_old_and_new_keys_have_equal_trial_keys(table: Table, facts: Facts) -> None:  # noqa: F811
    """Compare the steps of an old file and a new one."""
    new = LAB.replace("largest_frame", "mtu").replace("socket_buffer", "window")
    plain = parse(new, "new.yaml")
    table(*KEYS)
    with pytest.warns(OldName):
        old = parse(LAB, "old.yaml")
    keys = [[step.key for step in make_plan(one, facts).steps] for one in (plain, old)]
    assert keys[0] == keys[1]


def test_word_of_an_old_key_is_not_renamed_in_other_places(table: Table) -> None:
    """Check a different measure kind, group and depth."""
    table({**KEYS[0], "kind": "ping"}, {**KEYS[1], "within": "lab.machines.*"})
    with pytest.raises(InputError) as raised:
        parse(LAB, "old.yaml")
    assert "socket_buffer" in str(raised.value)
    assert "largest_frame" in str(raised.value)


def test_old_and_new_key_together_are_refused(table: Table) -> None:
    """Report the conflict instead of ignoring one."""
    table(*KEYS)
    both = LAB.replace("socket_buffer: 128K}", "socket_buffer: 128K, window: 1M}")
    with (
        pytest.warns(OldName),
        pytest.raises(InputError, match=r"old.yaml:6: .*'socket_buffer' and 'window'"),
    ):
        parse(both, "old.yaml")


def test_expired_old_key_is_refused_and_the_new_key_is_named(table: Table) -> None:
    """Print its line; accept it for ever in a stored file, without a notice."""
    table(*KEYS, since=LONG_AGO)
    with pytest.raises(InputError) as raised:
        parse(LAB, "old.yaml")
    for line in (4, 6, 8, 9):
        assert f"old.yaml:{line}: reading a key" in str(raised.value)
    assert "allowed: the key 'window'; the key was renamed in iolab 0.0" in str(raised.value)
    assert parse(LAB, "old.yaml", stored=True).title == "Old names"


def test_check_shows_a_rename_notice_once_and_lists_it_in_json(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit with code 0, because the file is valid."""
    table(*KEYS)
    file = tmp_path / "old.yaml"
    file.write_text(LAB)
    assert run(["check", str(file)]) == ExitCode.DONE
    captured = capsys.readouterr()
    notice = f"{file}:6: the key 'socket_buffer' is now called 'window'"
    assert captured.err.count(notice) == 1
    assert all(line.startswith("iolab: ") for line in captured.err.splitlines())
    assert run(["check", "--json", str(file)]) == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.err == ""
    assert sum(notice in one for one in json.loads(captured.out)["notices"]) == 1


# published figures

PUBLISHED = "measure,metric,of,value,unit,mtu\ntcp,received_bps,mean,9.4,Gbit/s,1500\n"


def test_old_column_of_published_figures_is_accepted_with_a_notice(table: Table) -> None:
    """Do not read it as a factor, with the new column missing."""
    with pytest.raises(InputError, match="no column statistic"):
        parse_published(PUBLISHED, "old.csv")
    table({"sort": Sort.CSV_COLUMN, "old": "of", "new": "statistic"})
    with pytest.warns(OldName, match=r"old.csv:1: the column 'of' is now called 'statistic'"):
        (figure,) = parse_published(PUBLISHED, "old.csv")
    assert (figure.statistic, figure.value, figure.metric) == ("mean", 9.4e9, Quantity("received_bps"))
    assert figure.cell == {"mtu": "1500"}


def test_expired_old_column_is_refused_and_the_new_column_is_named(table: Table) -> None:
    """Check the message."""
    table({"sort": Sort.CSV_COLUMN, "old": "of", "new": "statistic"}, since=LONG_AGO)
    with pytest.raises(InputError, match=r"old.csv:1: .*the column of; allowed: the column statistic"):
        parse_published(PUBLISHED, "old.csv")


# paths of imports

PACKAGE = """
from typing import Literal
from iolab.former.model.quantities import SomeWholeSeconds
from iolab.former.models.measures import Measure
from iolab.plugin import Kind

class Old(Measure):
    kind: Literal["old"] = "old"
    duration: SomeWholeSeconds = 5_000_000_000

PART = Kind(model=Old, duration_ns=lambda measure: measure.duration, measure=None)
"""
IMPORTS = (
    ("iolab.former", "iolab.experiment"),
    ("iolab.former.models", "iolab.experiment.model"),
    ("iolab.plugin:Kind", "iolab.plugin:MeasureKind"),
)
PROGRAM = """
import sys
from iolab import aliases
aliases.ALIASES = tuple(
    aliases.Alias(sort=aliases.Sort.IMPORT, old=old, new=new, since={since!r}) for old, new in {rows!r}
)
from iolab.cli.main import run
sys.exit(run(["check", {file!r}]))
"""
FILE = """title: Old
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {x: {ends: [a.p, b.p]}}
measure:
  it: {kind: old, duration: 2s}
"""


def check_with_package(tmp_path: Path, since: str) -> subprocess.CompletedProcess[str]:
    """Check a file whose kind comes from a package for an older iolab."""
    package = tmp_path / "packages"
    (package / "iolab_old-1.0.dist-info").mkdir(parents=True)
    (package / "iolab_old.py").write_text(PACKAGE)
    (package / "iolab_old-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: iolab-old\nVersion: 1.0\n"
    )
    entry = "[iolab.measures]\nold = iolab_old:PART\n"
    (package / "iolab_old-1.0.dist-info" / "entry_points.txt").write_text(entry)
    file = tmp_path / "old.yaml"
    file.write_text(FILE)
    program = PROGRAM.format(since=since, rows=IMPORTS, file=str(file))
    path = os.pathsep.join([str(package), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_package_with_old_import_paths_works_with_a_notice_each(tmp_path: Path) -> None:
    """Check a moved package, one below it that moved elsewhere, and a public name: the types are current."""
    ran = check_with_package(tmp_path, NOW)
    assert ran.returncode == 0, ran.stderr
    assert "correct" in ran.stdout
    for old, new in IMPORTS:
        assert ran.stderr.count(f"the import path {old!r} is now called {new!r}") == 1, ran.stderr
    assert "iolab_old.py:3" in ran.stderr
    assert "until iolab 0.3" in ran.stderr


def test_expired_import_path_is_refused_and_the_new_path_is_named(tmp_path: Path) -> None:
    """Name the package and both paths, without a traceback."""
    ran = check_with_package(tmp_path, LONG_AGO)
    assert ran.returncode == ExitCode.HOST_CANNOT
    assert "iolab-old" in ran.stderr
    assert "iolab.former was renamed in iolab 0.0: import iolab.experiment" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_import_of_an_unknown_module_fails_as_usual() -> None:
    """Ignore the alias table."""
    with pytest.raises(ModuleNotFoundError, match=r"No module named .iolab\.never_was"):
        import_module("iolab.never_was")
    with pytest.raises(AttributeError, match="has no attribute 'NeverWas'"):
        _ = import_module("iolab.plugin").NeverWas
