"""The public module: it has all names that packages with their own kinds need."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import iolab.plugin
from iolab.plugin import HOMES

ROOT = Path(__file__).parents[3]
NAMES = sorted(name for names in HOMES.values() for name in names)
HOW_TO = (ROOT / "docs" / "how-to" / "add-a-measure.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_of_the_plugin_module_exists(name: str) -> None:
    """Load each on first use."""
    assert getattr(iolab.plugin, name) is not None
    assert name in dir(iolab.plugin)


def test_stub_of_the_plugin_module_matches_the_loaded_names() -> None:
    """Compare names and modules of the stub, which type checkers read."""
    tree = ast.parse(Path(iolab.plugin.__file__).with_suffix(".pyi").read_text())
    stub = {
        (name.name, node.module) for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names
    }  # fmt: skip
    assert stub == {(name, module) for module, names in HOMES.items() for name in names}


def imported(text: str) -> Iterator[str]:
    """Yield the modules of iolab that a Python text imports from."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.py")), ids=lambda path: path.name)
def test_example_packages_import_only_the_plugin_module(path: Path) -> None:
    """Prevent other imports, which would break with the next rename."""
    of_iolab = {module for module in imported(path.read_text()) if re.match(r"iolab(\.|$)", module)}
    assert of_iolab <= {"iolab.plugin"}


def test_plugin_page_mentions_only_the_plugin_module() -> None:
    """Ignore entry point groups, which are not modules."""
    modules = set(re.findall(r"\biolab\.[a-z_]+(?:\.[a-z_]+)*", HOW_TO))
    assert modules <= {"iolab.plugin", "iolab.measures", "iolab.instruments"}


def test_importing_a_row_loads_no_measuring_module() -> None:
    """Keep reading an experiment fast, whatever a package adds."""
    program = (
        "import sys\nfrom iolab.plugin import MeasureKind, Measure, SomeWholeSeconds, check_pair\n"
        "print(*[name for name in sys.modules if name.startswith(('iolab.trial', 'iolab.agent', 'numpy'))])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
