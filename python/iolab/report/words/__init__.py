"""Every word that a report shows, a file per language; no other module of the report holds text for people."""

import json
import tomllib
from functools import cache
from importlib.resources import files

from iolab.record.encoding import Encoding
from iolab.report.words.words import MetricWords, Words

__all__ = ["EN", "LANGUAGES", "MetricWords", "Words", "read_words", "words_of"]

SUFFIX = ".toml"


def read_words(text: str) -> Words:
    """Return the words of a language, from the text of its file.

    Raises:
        ValueError: a word is missing, unknown, or no text; the message says which.
    """
    return Encoding(Words).decode(json.dumps(tomllib.loads(text)))


@cache
def words_of(code: str) -> Words:
    """Return the words of one of `LANGUAGES`."""
    return read_words((files(__package__) / f"{code}{SUFFIX}").read_text(encoding="utf-8"))


LANGUAGES = tuple(
    sorted(
        file.name.removesuffix(SUFFIX) for file in files(__package__).iterdir() if file.name.endswith(SUFFIX)
    )
)
"""The languages that there are, by their BCP 47 code: one for each file beside this module, which is named so."""
EN = words_of("en")
"""English."""
