"""Text of others (guests, programs, files) made fit for a terminal: what it would do there is shown, not done."""

from itertools import chain

CONTROLS = (
    (0x00, 0x09), (0x0B, 0x20), (0x7F, 0xA0),  # C0 but for tab and new line, DEL, C1
    (0x200B, 0x2010), (0x2028, 0x202F), (0x2060, 0x2070), (0xFEFF, 0xFF00),  # invisible; direction of writing
)  # fmt: skip
"""Ranges of characters that a terminal does not show but does."""
WRITTEN = {code: ascii(chr(code))[1:-1] for code in chain.from_iterable(range(*each) for each in CONTROLS)}


def printable(text: str) -> str:
    """Return a text whose control characters, of escape sequences and of writing direction, are written out: \\x1b."""
    return text.translate(WRITTEN)
