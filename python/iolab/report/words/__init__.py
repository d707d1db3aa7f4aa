"""Every word that a report shows, a file per language; no other module of the report holds text for people."""

from collections.abc import Mapping

from iolab.report.words.en import EN
from iolab.report.words.words import MetricWords, Words

__all__ = ["EN", "LANGUAGES", "MetricWords", "Words"]

LANGUAGES: Mapping[str, Words] = {EN.code: EN}
"""The languages that there are, by their BCP 47 code."""
