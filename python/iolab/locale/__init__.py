"""The text of commands and errors: a folder per language, with a file per stage.

Code contains only codes and parameters.
"""

from iolab.locale.phrases import ENGLISH, Phrase, Sayable, Text, languages, say

__all__ = ["ENGLISH", "Phrase", "Sayable", "Text", "languages", "say"]
