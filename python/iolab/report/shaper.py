"""What was found of a shaper, as lines for a terminal."""

from collections.abc import Iterator

from iolab.analysis.shaper_bounds import Check, Kept
from iolab.analysis.shaper_check import Advice, Judged, Kind
from iolab.report import numbers
from iolab.report.words import Words
from iolab.units import format_bytes

AT_LEAST = frozenset({Kept.REACHED, Kept.ALONE, Kept.SHARE})
FLOWS = 8
"""So many flows are suggested to be told apart: each stream of iperf3 has two connections."""


def lines(link: str, trial: str, found: Judged, words: Words) -> Iterator[str]:
    """Give the lines of one shaper in one trial."""
    said = words.wire.shaper
    verdicts = {Kind.PASSED: said.passed, Kind.FAILED: said.failed, Kind.NOT_JUDGED: said.not_judged}
    yield said.title.format(link=link, trial=trial, verdict=verdicts[found.verdict])
    for check in found.checks:
        yield _checked(check, words)
    if found.classes is None:
        yield said.flows_unseen.format(flows=FLOWS)
    for one in found.classes or ():
        yield (said.of_class if one.checks else said.silent_class).format(name=one.name)
        for check in one.checks:
            yield _checked(check, words)
    for advice in found.advice:
        yield said.advice.format(key=advice.key, value=_value(advice))


def _checked(check: Check, words: Words) -> str:
    said = words.wire.shaper
    what = {
        Kept.RATE: said.rate,
        Kept.REACHED: said.reached,
        Kept.WINDOW: said.window,
        Kept.CEIL: said.ceil,
        Kept.ALONE: said.alone,
        Kept.SHARE: said.share,
    }[check.what]
    bound = said.at_least if check.what in AT_LEAST else said.at_most
    held = said.held if check.held else said.missed
    if check.excuse is not None:
        held = said.excused.format(why=words.said.say(check.excuse))
    return bound.format(
        what=f"{what:18}",
        window=f"{numbers.duration(check.window_ns):>6}",
        seen=f"{check.seen_bps / 1e6:10.2f}",
        allowed=f"{check.allowed_bps / 1e6:.2f}",
        held=held,
    )


def _value(advice: Advice) -> str:
    return f"{advice.value}" if advice.key == "gso_max_segs" else format_bytes(advice.value)
