"""What was found of a shaper, as lines for a terminal."""

from collections.abc import Iterator

from iolab.analysis.shaper_check import Advice, Check, Judged, Kept
from iolab.report import numbers
from iolab.report.words import Words
from iolab.units import format_bytes


def lines(link: str, trial: str, found: Judged, words: Words) -> Iterator[str]:
    """Give the lines of one shaper in one trial."""
    said = words.wire.shaper
    verdict = said.passed if found.passed else said.failed
    yield said.title.format(link=link, trial=trial, verdict=verdict)
    for check in found.checks:
        yield _checked(check, words)
    for advice in found.advice:
        yield said.advice.format(key=advice.key, value=_value(advice))


def _checked(check: Check, words: Words) -> str:
    said = words.wire.shaper
    what = {Kept.RATE: said.rate, Kept.REACHED: said.reached, Kept.WINDOW: said.window}[check.what]
    bound = said.at_least if check.what is Kept.REACHED else said.at_most
    return bound.format(
        what=f"{what:18}",
        window=f"{numbers.duration(check.window_ns):>6}",
        seen=f"{check.seen_bps / 1e6:10.2f}",
        allowed=f"{check.allowed_bps / 1e6:.2f}",
        held=said.held if check.held else said.missed,
    )


def _value(advice: Advice) -> str:
    return f"{advice.value}" if advice.key == "gso_max_segs" else format_bytes(advice.value)
