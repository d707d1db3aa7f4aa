"""Every word that a report shows, a file per language; no other module of the report holds text for people."""

import tomllib
from functools import cache
from importlib.resources import files

from iolab.report.locale import words
from iolab.report.locale.words import Tree, Words

__all__ = ["EN", "LANGUAGES", "Words", "read_words", "words_of"]

SUFFIX = ".toml"
REFERENCE = "en"
"""The language whose file says which keys there are."""


def _text_of(code: str) -> str:
    return (files(__package__) / f"{code}{SUFFIX}").read_text(encoding="utf-8")


@cache
def _english() -> Tree:
    return tomllib.loads(_text_of(REFERENCE))


EN = Words(REFERENCE, _english)
"""English."""


def read_words(text: str) -> Words:
    """Return a language, from the text of its file.

    Raises:
        ValueError: it lacks a key of English, has one too many, or a place that is not filled; all are named.
    """
    return words.read_words(text, EN.tree)


@cache
def words_of(code: str) -> Words:
    """Return one of `LANGUAGES`."""
    return EN if code == REFERENCE else read_words(_text_of(code))


LANGUAGES = tuple(
    sorted(
        file.name.removesuffix(SUFFIX) for file in files(__package__).iterdir() if file.name.endswith(SUFFIX)
    )
)
"""The languages that there are, by their BCP 47 code: one for each file beside this module, which is named so."""
