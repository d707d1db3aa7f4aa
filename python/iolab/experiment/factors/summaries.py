"""Read the entries of `summarise`: the summaries to show over the levels of one factor."""

from collections.abc import Mapping
from typing import Any

from iolab.experiment.experiment import LevelRatio, Statistic, Summary
from iolab.experiment.factors.product import label_of
from iolab.experiment.reading.document import Table, line_of, written
from iolab.experiment.reading.problems import Problems, did_you_mean, listed
from iolab.locale import Phrase, Text

STATISTICS: tuple[Statistic, ...] = ("mean", "min", "max", "median")
"""Valid values of `show`."""

SHOWN: tuple[Statistic, ...] = ("mean", "min", "max")
"""Default of `show`."""

KEYS = ("over", "show", "ratio")

ONE_ALLOWED = "{over: FACTOR, show: [mean, min, max], ratio: {FACTOR: [level, level]}}"


def read_summaries(
    document: Table, known: Mapping[str, tuple[str, ...]], dropped: frozenset[str], problems: Problems
) -> tuple[Summary, ...]:
    """Return the summaries under the key `summarise`: one mapping, or a list of mappings.

    `known` has the labels of each factor, `dropped` the keys of invalid factors, which are already reported.
    """
    content, line = document.get("summarise"), line_of(document, "summarise")
    if content is None:
        return ()
    items = content if isinstance(content, list) else [content]
    reader = _SummaryReader(known, dropped, problems)
    found = []
    for index, item in enumerate(items):
        within = f"summarise.{index}" if isinstance(content, list) else "summarise"
        at = line_of(content, index, line) if isinstance(content, list) else line
        if isinstance(item, Mapping) and item:
            summary = reader.read(item, at, within)
            found += [summary] if summary is not None else []
        else:
            problems.add(
                at,
                Phrase("check.reading", place=within),
                item,
                Phrase("check.or-list-of-such-mappings", allowed=ONE_ALLOWED),
            )
    return tuple(found)


class _SummaryReader:
    """Reader for the entries of one experiment."""

    def __init__(
        self, known: Mapping[str, tuple[str, ...]], dropped: frozenset[str], problems: Problems
    ) -> None:
        self._known, self._dropped, self._problems = known, dropped, problems

    def read(self, item: Mapping[str, Any], line: int, within: Text) -> Summary | None:
        """Return one summary; None if the entry names no factor, or a factor with only one level."""
        for key in item:
            if key not in KEYS:
                near = did_you_mean(key, KEYS)
                at = line_of(item, key, line)
                self._problems.add(
                    at,
                    Phrase("check.reading", place=within),
                    Phrase("check.the-key", key=key),
                    Phrase("check.the-keys", keys=listed(KEYS)),
                    near,
                )
        if "over" not in item:
            self._problems.add(
                line, Phrase("check.reading", place=within), Phrase("check.no-over"), "over: FACTOR"
            )
            return None
        over = self._factor(item["over"], line_of(item, "over", line), f"{within}.over")
        show = self._show(item, line_of(item, "show", line), f"{within}.show")
        ratios = self._ratios(item, line_of(item, "ratio", line), f"{within}.ratio", over)
        return None if over is None else Summary(over, show, ratios)

    def _factor(self, name: object, line: int, within: Text) -> str | None:
        """Return the name of a factor with several levels."""
        if isinstance(name, str) and len(self._known.get(name, ())) > 1:
            return name
        if not isinstance(name, str) or name not in self._dropped:
            several = [factor for factor, labels in self._known.items() if len(labels) > 1]
            allowed = Phrase("check.factor-of-several-levels", several=listed(several))
            self._problems.add(
                line, Phrase("check.reading", place=within), name, allowed, did_you_mean(name, several)
            )
        return None

    def _show(self, item: Mapping[str, Any], line: int, within: Text) -> tuple[Statistic, ...]:
        wanted = item.get("show", list(SHOWN))
        if not isinstance(wanted, list) or not wanted:
            self._problems.add(
                line,
                Phrase("check.reading", place=within),
                wanted,
                Phrase("check.a-list-of", items=listed(STATISTICS)),
            )
            return SHOWN
        for index, word in enumerate(wanted):
            if word not in STATISTICS:
                near = did_you_mean(word, STATISTICS)
                at = line_of(wanted, index, line)
                self._problems.add(at, Phrase("check.reading", place=within), word, listed(STATISTICS), near)
        return tuple(name for name in STATISTICS if name in wanted)

    def _ratios(
        self, item: Mapping[str, Any], line: int, within: Text, over: str | None
    ) -> tuple[LevelRatio, ...]:
        content = item.get("ratio")
        if content is None:
            return ()
        if not isinstance(content, Mapping):
            self._problems.add(
                line, Phrase("check.reading", place=within), content, "{FACTOR: [level, level]}"
            )
            return ()
        found = (self._ratio(content, name, line, within, over) for name in content)
        return tuple(ratio for ratio in found if ratio is not None)

    def _ratio(
        self, content: Mapping[str, Any], name: str, line: int, within: Text, over: str | None
    ) -> LevelRatio | None:
        at, place = line_of(content, name, line), f"{within}.{name}"
        factor = self._factor(name, at, within)
        if factor is None:
            return None
        if factor == over:
            self._problems.add(
                at, Phrase("check.reading", place=place), name, Phrase("check.factor-other-than-over")
            )
            return None
        value, labels = content[name], self._known[factor]
        if not isinstance(value, list) or len(value) != 2:
            self._problems.add(
                at, Phrase("check.reading", place=place), value, Phrase("check.ratio-of-two-levels")
            )
            return None
        above, below = (label_of(written(value, index)) for index in range(2))
        for label in (above, below):
            if label not in labels and label not in self._dropped:
                allowed = Phrase("check.a-level-of", factor=factor, levels=listed(labels))
                self._problems.add(
                    at, Phrase("check.reading", place=place), label, allowed, did_you_mean(label, labels)
                )
        if above == below:
            self._problems.add(
                at, Phrase("check.reading", place=place), value, Phrase("check.two-different-levels")
            )
        return LevelRatio(factor, above, below)
