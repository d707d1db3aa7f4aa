"""What belongs to one kind of measure is written in its rooms and its row, nowhere else."""

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
    "trial/",  # what measures
    "run/calibration.py",  # measures the instrument itself by an experiment of its own
    "analysis/forwarding.py", "analysis/forwarding_types.py",
    "report/packets.py", "report/packet_tables.py", "report/interchange.py", "report/curves.py",
    "report/page/results.py",
}  # fmt: skip
"""Files and folders that are of single kinds, or write an experiment."""
MODELS = {
    *(kind.model.__name__ for kind in measure_kinds().values()),
    *(kind.model.__name__ for kind in instrument_kinds().values()),
}
WORDS = set(measure_kinds()) - {"disk", "latency", "forwarding", "command", "together"}
"""Kinds' names that are no words of the field as well."""
NAMING = (ast.ImportFrom, ast.Compare, ast.Dict, ast.match_case, ast.Constant)
"""Pieces of code that can name one."""


@cache
def outside() -> tuple[tuple[str, ast.AST], ...]:
    """Return every piece of code that is in no kind's room and may name a kind; it is read once for all tests."""
    return tuple(_outside())


def _outside() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(SOURCES.rglob("*.py")):
        place = path.relative_to(SOURCES).as_posix()
        if not any(place.startswith(room) for room in ROOMS):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, NAMING):
                    yield f"{place}:{getattr(node, 'lineno', 0)}", node


def test_no_kinds_model_is_imported_outside_its_rooms() -> None:
    """So nothing can tell kinds apart by their types."""
    found = [
        f"{place}: {name.name}"
        for place, node in outside()
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("iolab.experiment.")
        for name in node.names
        if name.name in MODELS
    ]
    assert found == []


def test_no_kinds_name_is_compared_with_outside_its_rooms() -> None:
    """Neither as text: a row says what is so for its kind."""
    found = [
        f"{place}: {part.value!r}"
        for place, node in outside()
        if isinstance(node, ast.Compare | ast.Dict | ast.match_case)
        for part in ast.walk(node.pattern if isinstance(node, ast.match_case) else node)
        if isinstance(part, ast.Constant) and part.value in WORDS
    ]
    assert found == []


def test_no_program_that_measures_is_named_outside_its_rooms() -> None:
    """Hosts are asked for the programs of all rows. What is said of words of other tools asks for none."""
    found = [
        f"{place}: {node.value!r}"
        for place, node in outside()
        if not place.startswith("experiment/reading/old_keys.py:")
        and isinstance(node, ast.Constant)
        and node.value in programs()
    ]
    assert found == []
