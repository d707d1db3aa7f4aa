"""Read what names levels: `only`, `except` and `baseline`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iolab.experiment.document import Table, line_of, written
from iolab.experiment.experiment import Factor, Selector
from iolab.experiment.factors import label_of
from iolab.experiment.problems import Problems, did_you_mean, listed
from iolab.experiment.product import names

ONE_ALLOWED = "a mapping of factor to label (or list of labels)"


@dataclass
class SelectorReader:
    """Reads selectors of one experiment."""

    factors: Sequence[Factor]
    """That they may name."""
    dropped: frozenset[str]
    """Words of factors that were wrong and are listed already: not to be missed here."""
    problems: Problems
    """Where what is wrong is noted."""
    known: Mapping[str, tuple[str, ...]] = field(init=False)
    """Factor to its labels."""

    def __post_init__(self) -> None:
        self.known = names(self.factors)

    def read(self, document: Table, key: str) -> tuple[Selector, ...]:
        """Return the selectors of `only` or `except`: one mapping, or a list of them."""
        content, line = document.get(key), line_of(document, key)
        if content is None:
            return ()
        if isinstance(content, Mapping):
            return (self._selector(content, line, key),) if content else ()
        if not isinstance(content, list):
            self.problems.add(line, f"reading {key}", content, f"{ONE_ALLOWED}, or a list of such mappings")
            return ()
        found = []
        for index, item in enumerate(content):
            at = line_of(content, index, line)
            if isinstance(item, Mapping) and item:
                found.append(self._selector(item, at, f"{key}.{index}"))
            else:
                self.problems.add(at, f"reading {key}.{index}", item, ONE_ALLOWED)
        return tuple(found)

    def baseline(self, document: Table) -> dict[str, str]:
        """Return factor -> the label that others are compared with."""
        content, line = document.get("baseline"), line_of(document, "baseline")
        if content is None:
            return {}
        if not isinstance(content, Mapping):
            allowed = "a mapping of factor to one of its labels"
            self.problems.add(line, "reading baseline", content, allowed)
            return {}
        single = {}
        for name, labels in self._selector(content, line, "baseline").items():
            value = content[name]
            if isinstance(value, list):
                self.problems.add(
                    line_of(content, name, line), f"reading baseline.{name}", value, "one label"
                )
            elif labels:
                single[name] = labels[0]
        return single

    def _selector(self, content: Mapping[str, Any], line: int, within: str) -> dict[str, tuple[str, ...]]:
        found = {}
        for name in content:
            at = line_of(content, name, line)
            if name in self.known:
                found[name] = self._labels(content, name, at, within)
            elif name not in self.dropped:
                near = did_you_mean(name, self.known)
                self.problems.add(at, f"reading {within}", name, f"a factor: {listed(self.known)}", near)
        return found

    def _labels(self, content: Mapping[str, Any], name: str, line: int, within: str) -> tuple[str, ...]:
        value, known = content[name], self.known[name]
        several = isinstance(value, list)
        seen = [written(value, index) for index in range(len(value))] if several else [written(content, name)]
        labels = [label_of(one) for one in seen]
        if not labels:
            self.problems.add(line, f"reading {within}.{name}", value, "one label or more")
        for label in labels:
            if label not in known and label not in self.dropped:
                near = did_you_mean(label, known)
                allowed = f"a level of {name}: {listed(known)}"
                self.problems.add(line, f"reading {within}.{name}", label, allowed, near)
        return tuple(label for label in labels if label in known)
