"""The text of reports in each language (file `report`). No other module of the report contains text for people."""

from functools import cache

from iolab.locale.phrases import ENGLISH, templates
from iolab.report.locale import words
from iolab.report.locale.words import Words

__all__ = ["EN", "FILE", "Words", "words_of"]

FILE = "report"
"""Name of the file with the report's text."""
EN = Words(ENGLISH, lambda: templates(ENGLISH, FILE))
"""English."""


@cache
def words_of(code: str) -> Words:
    """Return the text of a language; missing texts are in English.

    Raises:
        ValueError: the file has keys or placeholders that the English file does not have; the exception lists all of
            them.
    """
    return EN if code == ENGLISH else words.read_words(code, templates(code, FILE), EN.tree)
