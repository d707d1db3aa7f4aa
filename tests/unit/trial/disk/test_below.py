"""The disk below a volume's file: others that used it are told of where that changes what a trial measures."""

from dataclasses import replace

import pytest

from iolab.report.locale import EN
from iolab.trial.disk.layers import Below, below_of, used_by_others
from iolab.trial.disk.ledger import Counted

SECOND = 1_000_000_000
MIB = 1 << 20
ZERO = Below(Counted(read_bytes=0, written_bytes=0, reads=0, writes=0), 0, 0)
OWN = Counted(read_bytes=300 * MIB, written_bytes=100 * MIB, reads=3000, writes=1000)


def reached(more_bytes: int = 0, more_requests: int = 0, busy_ns: int = 9 * SECOND) -> Below:
    """Return what the disk did by 10 s: the trial's part, and more."""
    counted = replace(
        OWN, read_bytes=OWN.read_bytes + more_bytes, reads=(OWN.reads or 0) + more_requests, flushes=None
    )
    return Below(counted, busy_ns, 10 * SECOND)


def test_statistics_of_a_disk_have_the_time_that_it_was_busy() -> None:
    """As the kernel's documentation numbers them; what it does not write is no reading."""
    seen = below_of("10 1 16 5 20 2 32 6 0 250 11 0 0 0 0 3 1\n", 7)
    assert seen is not None
    assert (seen.busy_ns, seen.at_ns, seen.counted.read_bytes) == (250_000_000, 7, 8192)
    assert below_of("none\n", 7) is None


def test_others_that_moved_much_are_told_of() -> None:
    """Bytes or requests, whichever is more: one who flushes small writes moves little."""
    (warning,) = used_by_others("v", ZERO, reached(more_bytes=400 * MIB), OWN)
    assert EN.said.say(warning) == (
        "others used the disk below volume v, which was busy 90 % of the time: 50 % of what it did was not of this "
        "trial, 419430400 bytes or more"
    )
    (warning,) = used_by_others("v", ZERO, reached(more_requests=4000), OWN)
    assert (warning.others_ratio, warning.others_bytes, warning.comparable) == (0.5, 0, False)


@pytest.mark.parametrize(
    ("before", "after", "own"),
    [
        (ZERO, reached(), OWN),
        (ZERO, reached(more_bytes=20 * MIB, more_requests=200), OWN),
        (ZERO, reached(more_bytes=400 * MIB, busy_ns=SECOND), OWN),
        (ZERO, reached(), replace(OWN, read_bytes=4000 * MIB, reads=None)),
        (None, reached(more_bytes=400 * MIB), OWN),
        (ZERO, None, OWN),
        (ZERO, ZERO, OWN),
    ],
    ids=["its own", "a little", "a disk with time", "read from a cache", "unknown", "gone", "no time"],
)  # fmt: skip
def test_a_disk_that_the_trial_had_for_itself_has_no_mark(
    before: Below | None, after: Below | None, own: Counted
) -> None:
    """Nor one that nobody can tell of."""
    assert not list(used_by_others("v", before, after, own))
