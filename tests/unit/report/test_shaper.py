"""What `iolab verify-shaper` says of a shaper."""

from iolab.analysis.shaper_check import Advice, Judged
from iolab.analysis.shaper_classes import Check, ClassJudged, Kept
from iolab.messages.capture_warnings import WatchStolen
from iolab.report.locale import EN
from iolab.report.shaper import lines


def test_every_check_and_every_advice_is_a_line() -> None:
    """With what was seen, what is allowed, and whether it holds."""
    checks = (
        Check(Kept.REACHED, 10_000_000, 96e6, 97e6, held=False),
        Check(Kept.WINDOW, 12_000, 99e6, 1.1e9, held=True),
    )
    advice = (Advice("burst", 16_384), Advice("gso_max_segs", 1))
    said = list(lines("wire", "tcp block 1", Judged(checks, advice), EN))
    assert said == [
        "wire: tcp block 1: FAIL",
        "  reaches the rate    10 ms       96.00 Mbit/s, at least 97.00  FAIL",
        "  most in a window    12 µs       99.00 Mbit/s, at most 1100.00  ok",
        "  try burst: 16 KiB",
        "  try gso_max_segs: 1",
    ]


def test_classes_have_lines_of_their_own_and_what_is_not_judged_has_its_reason() -> None:
    """A class that sent nothing is said to be so."""
    stolen = WatchStolen(at="far.eth0", stolen_ratio=0.1)
    checks = (
        Check(Kept.SHARE, 12_000_000, 39e6, 38.8e6, held=True),
        Check(Kept.WINDOW, 12_000, 99e6, 60e6, held=False, excuse=stolen),
    )
    found = Judged((), (), (ClassJudged("one", checks), ClassJudged("two", ())))
    said = list(lines("wire", "tcp block 1", found, EN))
    assert said[:3] == [
        "wire: tcp block 1: not judged",
        "  class one:",
        "  its rate by others  12 ms       39.00 Mbit/s, at least 38.80  ok",
    ]
    assert said[3].startswith("  most in a window    12 µs       99.00 Mbit/s, at most 60.00  not judged: ")
    assert EN.said.say(stolen) in said[3]
    assert said[4:] == ["  class two: not judged, it sent too little"]


def test_classes_that_the_watch_does_not_tell_apart_are_said_to_be_so() -> None:
    """With the key that would."""
    said = list(lines("wire", "tcp block 1", Judged((), (), None), EN))
    assert said[1:] == [
        "  classes: not judged, flows are not told apart: give the watch `flows: 8`",
    ]
