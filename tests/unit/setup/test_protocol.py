"""The controller's messages and the contract's tables follow the schema that the agent writes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[3]
SCHEMA, CLASSES, TABLES = (
    "contract/agent-v1.schema.json",
    "python/iolab/agent/messages.py",
    "contract/agent-v1-messages.md",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with what is generated, and from what."""
    for name in (SCHEMA, CLASSES, TABLES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / name, tmp_path / name)
    return tmp_path


def generate(tree: Path) -> None:
    """Write what is generated."""
    subprocess.run([sys.executable, TREE / "scripts/protocol.py"], cwd=tree, check=True)


def test_what_is_committed_is_what_the_schema_says(tree: Path) -> None:
    """Else somebody changed by hand what is generated, or forgot to generate it."""
    generate(tree)
    assert all((tree / name).read_text() == (TREE / name).read_text() for name in (CLASSES, TABLES))


def test_a_field_that_the_agent_adds_reaches_the_controller_and_the_tables(tree: Path) -> None:
    """With its type, its unit, and what its absence stands for."""
    schema = json.loads((tree / SCHEMA).read_text())
    uptime = {
        "description": "Since it booted (ns).",
        "type": "integer",
        "format": "uint64",
        "minimum": 0,
        "default": 7,
    }
    schema["$defs"]["Pong"]["properties"]["uptime_ns"] = uptime
    (tree / SCHEMA).write_text(json.dumps(schema))
    generate(tree)
    assert '    uptime_ns: Count = 7\n    """Since it booted [ns]."""\n' in (tree / CLASSES).read_text()
    assert "| `uptime_ns` | u64 | `7` | Since it booted (ns). |\n" in (tree / TABLES).read_text()
