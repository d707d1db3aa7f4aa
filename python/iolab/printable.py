"""Make text from guests, programs and files safe for a terminal: control characters are shown as text."""

from itertools import chain

CONTROLS = (
    (0x00, 0x09), (0x0B, 0x20), (0x7F, 0xA0),  # the control characters C0 (except tab and newline), DEL and C1
    (0x200B, 0x2010), (0x2028, 0x202F), (0x2060, 0x2070), (0xFEFF, 0xFF00),  # invisible characters; writing direction
)  # fmt: skip
"""Ranges of characters that control a terminal and are not visible."""
LONGEST_LINE = 120
WRITTEN = {code: ascii(chr(code))[1:-1] for code in chain.from_iterable(range(*each) for each in CONTROLS)}


def printable(text: str) -> str:
    r"""Return a text in which characters that control a terminal or the writing direction are written as escapes such
    as \x1b."""
    return text.translate(WRITTEN)


def one_line(text: str) -> str:
    """Return the start of a text on one line, so that a name in a message cannot imitate a separate message."""
    line = " ".join(text.split())
    return printable(line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}...")
