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
    """Return a tree with the generated files and their sources."""
    for name in (SCHEMA, CLASSES, TABLES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / name, tmp_path / name)
    return tmp_path


def generate(tree: Path) -> None:
    """Generate the files."""
    subprocess.run([sys.executable, TREE / "scripts/protocol.py"], cwd=tree, check=True)


def test_generated_files_match_the_schema(tree: Path) -> None:
    """Detect manual edits and a forgotten generation."""
    generate(tree)
    assert all((tree / name).read_text() == (TREE / name).read_text() for name in (CLASSES, TABLES))


def test_new_agent_field_is_added_to_the_python_classes_and_tables(tree: Path) -> None:
    """Check its type, its unit and its default."""
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
