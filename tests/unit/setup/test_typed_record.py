"""What was measured crosses from `trial` to `analysis` as types: no raw JSON, and no name taken apart."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3] / "python" / "iolab"
READERS = sorted(path for part in ("analysis", "report") for path in (ROOT / part).rglob("*.py"))


@pytest.mark.parametrize("path", READERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_raw_json_reaches_what_concludes_and_reports(path: Path) -> None:
    """Records are decoded in one place, by their types."""
    text = path.read_text()
    for raw in ("dict[str, Any]", "json.loads", "Mapping[str, Any]", "import Json"):
        assert raw not in text or "report/locale" in str(path), f"{path}: {raw}"


@pytest.mark.parametrize("path", READERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_metrics_name_is_taken_apart(path: Path) -> None:
    """What a metric is about is in its dimensions."""
    text = path.read_text()
    for way in ('partition("[")', 'split("[")', "\\[([0-9", '"[" in', '"[" not in'):
        assert way not in text, f"{path}: {way}"
