"""Output of guests, programs and files reaches the terminal as text, never as control sequences."""

import pytest
from rich.table import Table

from iolab.cli.console import complain, say
from iolab.cli.screen import console
from iolab.printable import printable

HOSTILE = "\x1b]0;owned\x07\x1b[2Jgone\x9b31m\u202etxt"
SHOWN = r"\x1b]0;owned\x07\x1b[2Jgone\x9b31m\u202etxt"


def test_escape_sequences_are_made_visible_and_plain_text_is_unchanged() -> None:
    """Keep tabs, new lines, umlauts and the narrow space of numbers."""
    assert printable(HOSTILE) == SHOWN
    plain = "a\tb\nµs, 1\u202f000, 1\u00a0s, ≥ 3 × ä"
    assert printable(plain) == plain


def test_printed_lines_and_errors_contain_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    """Check both functions that print a line."""
    say(f"title: {HOSTILE}")
    complain(f"iperf3 said {HOSTILE}")
    seen = capsys.readouterr()
    assert seen.out == f"title: {SHOWN}\n"
    assert seen.err == f"iolab: iperf3 said {SHOWN}\n"


def test_printed_tables_contain_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    """Check cells, heads and titles."""
    table = Table("a\x1b[2J", title="t\x1b[2J")
    table.add_row("r\x1b[2J")
    console().print(table)
    seen = capsys.readouterr().out
    assert "\x1b" not in seen
    assert seen.count(r"\x1b[2J") == 3
