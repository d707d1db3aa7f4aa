"""The words of commands and errors: a folder per language, in it a file per stage. Code has codes and parameters."""

from iolab.locale.phrases import ENGLISH, Phrase, Sayable, Text, languages, say

__all__ = ["ENGLISH", "Phrase", "Sayable", "Text", "languages", "say"]
