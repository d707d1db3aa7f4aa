"""Results pass from `trial` to `analysis` as types: no raw JSON, and no parsed names."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3] / "python" / "iolab"
READERS = sorted(path for part in ("analysis", "report") for path in (ROOT / part).rglob("*.py"))


@pytest.mark.parametrize("path", READERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_analysis_and_report_contain_no_raw_json(path: Path) -> None:
    """Decode records in one place, by their types."""
    text = path.read_text()
    for raw in ("dict[str, Any]", "json.loads", "Mapping[str, Any]", "import Json"):
        assert raw not in text or "report/locale" in str(path), f"{path}: {raw}"


@pytest.mark.parametrize("path", READERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_parses_metric_names(path: Path) -> None:
    """Store the subject of a metric in its dimensions."""
    text = path.read_text()
    for way in ('partition("[")', 'split("[")', "\\[([0-9", '"[" in', '"[" not in'):
        assert way not in text, f"{path}: {way}"
