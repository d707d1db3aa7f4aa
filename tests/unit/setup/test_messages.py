"""The page of all messages with sample values."""

import subprocess
import sys
from pathlib import Path
from string import Formatter

import pytest
from messages import LOCALE, SAMPLES, Page, Unsampled

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def page() -> Page:
    """Return the messages of this repository."""
    files = {str(path): path.read_text(encoding="utf-8") for path in sorted((ROOT / LOCALE).glob("*.toml"))}
    return Page(files, SAMPLES.read_text(encoding="utf-8"))


def test_make_messages_prints_every_message(page: Page) -> None:
    """Print each below the name of its file."""
    argv = [sys.executable, str(ROOT / "scripts" / "messages.py")]
    printed = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in {path for path, _, _ in page.messages}:
        assert str(Path(path).relative_to(ROOT)) in printed
    keys = [f"\n  {key}: " for _, key, _ in page.messages]
    assert len(keys) > 2000
    assert [key for key in keys if key not in printed] == []


def test_every_placeholder_in_a_printed_message_is_replaced(page: Page) -> None:
    """Keep literal braces."""
    left = []
    for path, key, text in page.messages:
        filled, pieces = page.filled(path, key, text), [*Formatter().parse(text)]
        literal = "".join(piece for piece, _, _, _ in pieces)
        places = [f"{{{name}" for _, name, _, _ in pieces if name]
        left += [f"{key}: {filled}" for place in places if place in filled and place not in literal]
    assert left == []


def test_placeholder_without_a_sample_value_is_named() -> None:
    """Tell the author what to add."""
    page = Page({"en/check.toml": 'odd = "an {unheard} value"'}, "[of_name]\n[of_suffix]\n[of_message]\n")
    ((path, key, text),) = page.messages
    with pytest.raises(Unsampled, match=r"check\.odd: \{unheard\} has no sample value"):
        page.filled(path, key, text)


def test_sample_values_are_formatted_as_in_the_product() -> None:
    """Format lists, units, and texts for a count of one."""
    files = {
        "en/lists.toml": 'comma = ", "\nand = "{first} and {last}"\n',
        "en/check.toml": 'both = "{names:and}"\ncells-if-one = "{count} cell"\n',
        "en/report.toml": '[said.sentences]\nlost = "{lost_ratio:.1} of {rate_bps}"\n[said.units]\nbps = "{value}"\n',
    }
    samples = """
[of_name]
"names" = ["a", "b"]
count = 3
value = 1
[of_suffix]
ratio = 0.05
bps = 1_000_000
[of_message]
"""
    page = Page(files, samples)
    filled = {key: page.filled(path, key, text) for path, key, text in page.messages if "first" not in text}
    assert filled["both"] == "a and b"
    assert filled["cells-if-one"] == "1 cell"
    assert filled["said.sentences.lost"] == "5.0 % of 1 Mbit/s"
