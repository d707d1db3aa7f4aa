"""Every word that a report shows, a file per language; no other module of the report holds text for people."""

import json
import tomllib
from collections.abc import Mapping
from importlib.resources import files

from iolab.record.encoding import Encoding
from iolab.report.words.words import MetricWords, Words

__all__ = ["EN", "LANGUAGES", "MetricWords", "Words", "read_words"]

SUFFIX = ".toml"


def read_words(text: str) -> Words:
    """Return the words of a language, from the text of its file.

    Raises:
        ValueError: a word is missing, unknown, or no text; the message says which.
    """
    return Encoding(Words).decode(json.dumps(tomllib.loads(text)))


def _languages() -> dict[str, Words]:
    found = (file for file in files(__package__).iterdir() if file.name.endswith(SUFFIX))
    return {words.code: words for words in (read_words(file.read_text(encoding="utf-8")) for file in found)}


LANGUAGES: Mapping[str, Words] = _languages()
"""The languages that there are, by their BCP 47 code: one for each file beside this module."""
EN = LANGUAGES["en"]
"""English."""
