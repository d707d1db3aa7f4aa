"""The words of a report: the file `report` of each language. No other module of the report has text for people."""

from functools import cache

from iolab.locale.phrases import ENGLISH, templates
from iolab.report.locale import words
from iolab.report.locale.words import Words

__all__ = ["EN", "FILE", "Words", "words_of"]

FILE = "report"
"""The file of a language that has the words of reports."""
EN = Words(ENGLISH, lambda: templates(ENGLISH, FILE))
"""English."""


@cache
def words_of(code: str) -> Words:
    """Return the words of a language, and English ones where it lacks its own.

    Raises:
        ValueError: its file has a key or a place that English has not; all are named.
    """
    return EN if code == ENGLISH else words.read_words(code, templates(code, FILE), EN.tree)
