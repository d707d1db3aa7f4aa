"""What was found of a shaper, as lines for a terminal."""

from collections.abc import Iterator

from iolab.analysis.shaper_check import Advice, Judged, Kind
from iolab.analysis.shaper_classes import Check, Kept
from iolab.report import numbers
from iolab.report.locale import Words
from iolab.units import format_bytes

AT_LEAST = frozenset({Kept.REACHED, Kept.ALONE, Kept.SHARE})
FLOWS = 8
"""So many flows are suggested to be told apart: each stream of iperf3 has two connections."""


def lines(link: str, trial: str, found: Judged, words: Words) -> Iterator[str]:
    """Give the lines of one shaper in one trial."""
    verdicts = {
        Kind.PASSED: words.text("wire.shaper.passed"),
        Kind.FAILED: words.text("wire.shaper.failed"),
        Kind.NOT_JUDGED: words.text("wire.shaper.not_judged"),
    }
    yield words.text("wire.shaper.title", link=link, trial=trial, verdict=verdicts[found.verdict])
    for check in found.checks:
        yield _checked(check, words)
    if found.classes is None:
        yield words.text("wire.shaper.flows_unseen", flows=FLOWS)
    for one in found.classes or ():
        yield words.text("wire.shaper.of_class" if one.checks else "wire.shaper.silent_class", name=one.name)
        for check in one.checks:
            yield _checked(check, words)
    for advice in found.advice:
        yield words.text("wire.shaper.advice", key=advice.key, value=_value(advice))


def _checked(check: Check, words: Words) -> str:
    what = {
        Kept.RATE: words.text("wire.shaper.rate"),
        Kept.REACHED: words.text("wire.shaper.reached"),
        Kept.WINDOW: words.text("wire.shaper.window"),
        Kept.CEIL: words.text("wire.shaper.ceil"),
        Kept.ALONE: words.text("wire.shaper.alone"),
        Kept.SHARE: words.text("wire.shaper.share"),
    }[check.what]
    bound = (
        words.text("wire.shaper.at_least") if check.what in AT_LEAST else words.text("wire.shaper.at_most")
    )
    held = words.text("wire.shaper.held") if check.held else words.text("wire.shaper.missed")
    if check.excuse is not None:
        held = words.text("wire.shaper.excused", why=words.said.say(check.excuse))
    return bound.format(
        what=f"{what:18}",
        window=f"{numbers.duration(check.window_ns):>6}",
        seen=f"{check.seen_bps / 1e6:10.2f}",
        allowed=f"{check.allowed_bps / 1e6:.2f}",
        held=held,
    )


def _value(advice: Advice) -> str:
    return f"{advice.value}" if advice.key == "gso_max_segs" else format_bytes(advice.value)
