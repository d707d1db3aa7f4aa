"""Every word that a report shows, one module per language; no other module of the report holds text for people."""

from iolab.report.words.en import EN
from iolab.report.words.words import MetricWords, Words

__all__ = ["EN", "MetricWords", "Words"]
