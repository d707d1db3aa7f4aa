"""Read the entries of `expect`: the results that an experiment must have."""

from collections.abc import Callable, Mapping
from typing import Any

from iolab.experiment.experiment import Expectation, LevelRatio
from iolab.experiment.factors.product import SelectorReader, label_of
from iolab.experiment.reading.document import Table, line_of, written
from iolab.experiment.reading.problems import Problems, did_you_mean, listed
from iolab.locale import Phrase, Text
from iolab.units import UnitError, parse_bits_per_second, parse_bytes, parse_nanoseconds, parse_ratio

KEYS = ("measure", "metric", "cell", "ratio", "min", "max", "equivalent", "verdict")
ONE_ALLOWED = "{measure: NAME, min: 1Gbit}"
UNITS: tuple[tuple[str, Callable[[object], float]], ...] = (
    ("bit/s", parse_bits_per_second),
    ("ns", parse_nanoseconds),
    ("byte", parse_bytes),
    ("ratio", parse_ratio),
)
"""Units of bounds with their readers, in the order in which they are tried."""
LARGEST_MARGIN = 0.5


def read_expectations(
    document: Table, measures: tuple[str, ...], selectors: SelectorReader, problems: Problems
) -> tuple[Expectation, ...]:
    """Return the entries of the list under the key `expect`."""
    content, line = document.get("expect"), line_of(document, "expect")
    if content is None:
        return ()
    if not isinstance(content, list) or not content:
        allowed = Phrase("check.list-of-expectations", example=ONE_ALLOWED)
        problems.add(line, Phrase("check.reading", place="expect"), content, allowed)
        return ()
    reader = _Reader(measures, selectors, problems)
    found = []
    for index, item in enumerate(content):
        at, within = line_of(content, index, line), f"expect.{index}"
        if isinstance(item, Table) and item:
            before = len(problems)
            one = reader.read(item, at, within)
            found += [one] if len(problems) == before else []
        else:
            problems.add(at, Phrase("check.reading", place=within), item, ONE_ALLOWED)
    return tuple(found)


class _Reader:
    """Reader for the expectations of one experiment."""

    def __init__(self, measures: tuple[str, ...], selectors: SelectorReader, problems: Problems) -> None:
        self._measures, self._selectors, self._problems = measures, selectors, problems

    def read(self, item: Table, line: int, within: str) -> Expectation:
        """Return one expectation; problems are reported."""
        unknown = [key for key in item if key not in KEYS]
        for key in unknown:
            self._wrong(item, key, within, Phrase("check.the-keys", keys=listed(KEYS)), key)
        before = len(self._problems)
        name = item.get("measure")
        if name not in self._measures:
            near = did_you_mean(name, self._measures)
            allowed = Phrase("check.a-measure-of", measures=listed(self._measures))
            self._problems.add(
                line_of(item, "measure", line), Phrase("check.reading", place=within), name, allowed, near
            )
        metric = item.get("metric")
        if metric is not None and not (isinstance(metric, str) and metric.isidentifier()):
            self._wrong(item, "metric", within, Phrase("check.name-of-a-metric"))
        cells = self._selectors.read(item, "cell")
        ratio = self._ratio(item, within) if item.get("ratio") is not None else None
        low, low_unit = self._bound(item, "min", within, ratio is not None)
        high, high_unit = self._bound(item, "max", within, ratio is not None)
        verdicts = self._verdicts(item, within)
        kinds = [low is not None or high is not None, "equivalent" in item, bool(verdicts)]
        good = not unknown and len(self._problems) == before
        if good and (
            sum(kinds) != 1 or (ratio is None and "equivalent" in item) or (ratio is not None and verdicts)
        ):
            seen = Phrase("check.the-keys", keys=listed(item))
            self._problems.add(
                line, Phrase("check.reading", place=within), seen, Phrase("check.one-kind-of-expectation")
            )
        if low is not None and high is not None and (low > high or low_unit != high_unit):
            self._wrong(item, "max", within, Phrase("check.max-at-least-min", min=item["min"]))
        return Expectation(
            line=line,
            measure=str(name),
            metric=metric,
            cells=cells,
            ratio=ratio,
            min=low,
            max=high,
            unit=low_unit or high_unit,
            equivalent=self._margin(item, within),
            verdicts=verdicts,
        )

    def _wrong(self, item: Table, key: str, within: str, allowed: Text, word: str | None = None) -> None:
        near = did_you_mean(word, KEYS) if word else ""
        seen = Phrase("check.the-key", key=word) if word else written(item, key)
        place = within if word else f"{within}.{key}"
        self._problems.add(line_of(item, key), Phrase("check.reading", place=place), seen, allowed, near)

    def _bound(self, item: Table, key: str, within: str, is_ratio: bool) -> tuple[float | None, str]:
        """Return a bound and its unit; the unit of a plain number is empty, which stands for the unit of the metric."""
        value = item.get(key)
        if value is None:
            return None, ""
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(value), ""
        for unit, parse in UNITS[-1:] if is_ratio else UNITS:
            try:
                number = float(parse(value))
            except UnitError:
                continue
            if number > 0:
                return number, unit
        allowed = Phrase("check.ratio-above-0") if is_ratio else Phrase("check.bound-above-0")
        self._wrong(item, key, within, allowed)
        return None, ""

    def _margin(self, item: Table, within: str) -> float | None:
        if "equivalent" not in item:
            return None
        return read_margin(item, "equivalent", within, self._problems)

    def _verdicts(self, item: Table, within: str) -> tuple[str, ...]:
        value = item.get("verdict")
        if value is None:
            return ()
        words = value if isinstance(value, list) else [value]
        from iolab.results.verdict import Limit  # only files with an expected verdict need the evidence types

        known = [limit.value for limit in Limit]
        wrong = [word for word in words if word not in known]
        if wrong or not words:
            near = did_you_mean(wrong[0], known) if wrong else ""
            self._problems.add(
                line_of(item, "verdict"),
                Phrase("check.reading", place=f"{within}.verdict"),
                wrong[0] if wrong else value,
                Phrase("check.limits-of", limits=listed(known)),
                near,
            )
            return ()
        return tuple(words)

    def _ratio(self, item: Table, within: str) -> LevelRatio | None:
        content, known = item["ratio"], self._selectors.known
        if isinstance(content, Mapping) and len(content) == 1:
            factor = next(iter(content))
            value: Any = content[factor]
            labels = known.get(factor, ())
            if isinstance(value, list) and len(value) == 2:
                above, below = (label_of(written(value, index)) for index in range(2))
                if above in labels and below in labels and above != below:
                    return LevelRatio(factor, above, below)
        if not isinstance(content, Mapping) or not (set(content) & self._selectors.dropped):
            factors = [name for name, labels in known.items() if len(labels) > 1]
            self._wrong(item, "ratio", within, Phrase("check.ratio-of-levels-of", factors=listed(factors)))
        return None


def read_margin(holder: Table, key: str, within: str, problems: Problems) -> float:
    """Return a relative margin between 0 and `LARGEST_MARGIN` [ratio]; 0 if the margin is invalid, which is
    reported."""
    try:
        margin = parse_ratio(holder[key])
    except UnitError:
        margin = 0.0
    if not 0 < margin <= LARGEST_MARGIN:
        place = f"{within}.{key}" if within else key
        allowed = Phrase("check.margin-up-to", largest=LARGEST_MARGIN)
        problems.add(
            line_of(holder, key), Phrase("check.reading", place=place), written(holder, key), allowed
        )
        return 0.0
    return margin
