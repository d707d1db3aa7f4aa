"""Print every message of the locale files with realistic values: `scripts/messages.py`.

The page is made to be read from top to bottom. `message_samples.toml` contains the values.
"""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from iolab.locale.phrases import ONE, fill
from iolab.report.locale.words import Sentences

SAMPLES = Path(__file__).with_name("message_samples.toml")
LOCALE = Path("python/iolab/locale/en")
JOINED = (("lists", ""), ("report", "said.joined."))
"""Files, and prefixes of keys, of the texts that join the items of a list."""
STATED = "report.said."
"""Prefix of the keys of texts whose numbers are formatted with units; other texts get plain numbers."""


def main() -> int:
    """Print the messages of this directory's repository, grouped by file; return the exit code."""
    files = {str(path): path.read_text(encoding="utf-8") for path in sorted(LOCALE.glob("*.toml"))}
    page = Page(files, SAMPLES.read_text(encoding="utf-8"))
    try:
        lines = [(path, f"  {key}: {page.filled(path, key, text)}") for path, key, text in page.messages]
    except Unsampled as error:
        print(f"messages: {error}", file=sys.stderr)
        return 1
    for path, of_file in groupby(lines, key=lambda line: line[0]):
        print(f"\n{path}")
        for _, line in of_file:
            print(line)
    return 0


class Unsampled(Exception):
    """A placeholder of a message has no sample value."""


class Page:
    """The messages of the files of one language, by path."""

    def __init__(self, files: Mapping[str, str], sample_values: str) -> None:
        """Read the files and the sample values, both TOML."""
        samples = tomllib.loads(sample_values)
        self._of_suffix: dict[str, object] = samples["of_suffix"]
        self._of_message: dict[str, object] = samples["of_message"]
        self._of_name = {name: value for names, value in samples["of_name"].items() for name in names.split()}
        self.messages = [
            (path, key, text)
            for path, content in files.items()
            for key, text in texts(tomllib.loads(content))
        ]

    def filled(self, path: str, key: str, text: str) -> str:
        """Return a message with sample values, formatted as in the product.

        Raises:
            Unsampled: a placeholder has no value.
        """
        message = f"{Path(path).stem}.{key}"
        return fill(text, lambda name, spec: self._written(message, name, spec))

    def _written(self, message: str, name: str, spec: str) -> str:
        value = self._sample(message, name, spec)
        if not isinstance(value, list):
            number_of_phrase = isinstance(value, int | float) and not message.startswith(STATED)
            return self._sentences.write(name, str(value) if number_of_phrase else value, spec)
        return self._sentences.write(name, tuple(value), spec)

    def _sample(self, message: str, name: str, spec: str) -> Any:
        """Return the most specific sample: for the message, its file, the name with its form, the name, or its unit."""
        if name == "count" and message.endswith(ONE):
            return 1
        for values, key in (
            (self._of_message, f"{message} {name}"),
            (self._of_message, f"{message.partition('.')[0]} {name}"),
            (self._of_name, f"{name}:{spec}"),
            (self._of_name, name),
            (self._of_suffix, next((end for end in self._of_suffix if name.endswith(f"_{end}")), "")),
        ):
            if key in values:
                return values[key]
        raise Unsampled(f"{message}: {{{name}}} has no sample value: add one to {SAMPLES.name}")

    @cached_property
    def _sentences(self) -> Sentences:
        """The texts of the language for units, lists and names."""
        joined: dict[str, str] = {}
        for file, table in JOINED:
            joined |= self._table(file, table)
        units, names = (self._table("report", f"said.{table}.") for table in ("units", "names"))
        return Sentences(units=units, joined=joined, sentences={}, advice={}, names=names)

    def _table(self, file: str, start: str) -> dict[str, str]:
        return {
            key.removeprefix(start): text
            for path, key, text in self.messages
            if Path(path).stem == file and key.startswith(start)
        }


def texts(table: Mapping[str, object], start: str = "") -> Iterator[tuple[str, str]]:
    """Yield key and text of each message; lists in a locale file are search words, which are never shown."""
    for name, value in table.items():
        if isinstance(value, str):
            yield f"{start}{name}", value
        elif isinstance(value, dict):
            yield from texts(value, f"{start}{name}.")


if __name__ == "__main__":
    sys.exit(main())
