"""Code of one kind of measure is only in the modules of the kind and its row."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import iolab
from iolab.registry.registry import instrument_kinds, measure_kinds, programs

SOURCES = Path(iolab.__file__).parent
ROOMS = {
    "experiment/model/measures.py", "experiment/model/packets.py", "experiment/model/instruments.py",
    "registry/disk_programs.py", "measures/", "instruments/",  # the rows
    "trial/",  # measuring modules
    "run/calibration.py",  # measures the instrument itself by an experiment
    "analysis/forwarding.py", "analysis/forwarding_types.py",
    "report/packets.py", "report/packet_tables.py", "report/interchange.py", "report/curves.py",
    "report/page/results.py",
}  # fmt: skip
"""Files and folders that belong to single kinds, or write an experiment."""
MODELS = {
    *(kind.model.__name__ for kind in measure_kinds().values()),
    *(kind.model.__name__ for kind in instrument_kinds().values()),
}
WORDS = set(measure_kinds()) - {"disk", "latency", "forwarding", "command", "together"}
"""Names of kinds that are not field terms as well."""
NAMING = (ast.ImportFrom, ast.Compare, ast.Dict, ast.match_case, ast.Constant)
"""Syntax nodes that can name a kind."""


@cache
def outside() -> tuple[tuple[str, ast.AST], ...]:
    """Return every piece of code outside the kinds' modules that may name a kind; it is parsed once for all tests."""
    return tuple(_outside())


def _outside() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(SOURCES.rglob("*.py")):
        place = path.relative_to(SOURCES).as_posix()
        if not any(place.startswith(room) for room in ROOMS):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, NAMING):
                    yield f"{place}:{getattr(node, 'lineno', 0)}", node


def test_model_of_a_measure_kind_is_imported_only_by_its_own_modules() -> None:
    """Prevent code that distinguishes kinds by type."""
    found = [
        f"{place}: {name.name}"
        for place, node in outside()
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("iolab.experiment.")
        for name in node.names
        if name.name in MODELS
    ]
    assert found == []


def test_name_of_a_measure_kind_is_compared_only_in_its_own_modules() -> None:
    """Prevent comparisons by text: a row states the properties of its kind."""
    found = [
        f"{place}: {part.value!r}"
        for place, node in outside()
        if isinstance(node, ast.Compare | ast.Dict | ast.match_case)
        for part in ast.walk(node.pattern if isinstance(node, ast.match_case) else node)
        if isinstance(part, ast.Constant) and part.value in WORDS
    ]
    assert found == []


def test_measuring_program_is_named_only_in_the_modules_of_its_kind() -> None:
    """Check hosts for the programs of all rows; ignore old keys of other tools."""
    found = [
        f"{place}: {node.value!r}"
        for place, node in outside()
        if not place.startswith("experiment/reading/old_keys.py:")
        and isinstance(node, ast.Constant)
        and node.value in programs()
    ]
    assert found == []
