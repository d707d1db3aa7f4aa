"""What `iolab verify-shaper` says of a shaper."""

from iolab.analysis.shaper_check import Advice, Check, Judged, Kept
from iolab.report.shaper import lines
from iolab.report.words import EN


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
