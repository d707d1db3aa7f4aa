"""After a program its disk is flushed, and the caches behind are looked at: who did not keep the flush is found."""

from iolab.trial.disk.measure import FLUSHES, flushed
from iolab.trial.disk.own import Residency


def seen(dirty_bytes: int | None) -> Residency:
    """Return what was seen of a file of 1 MiB."""
    about = {"wanted": "as-left", "state": "warm", "how": "cachestat", "resident_bytes": 1 << 20}
    return Residency.model_validate({**about, "dirty_bytes": dirty_bytes, "of_bytes": 1 << 20})


def tried(*looks: int | None) -> tuple[int, list[Residency | None]]:
    """Return how often was flushed, and what was seen last, where the looks one by one show this."""
    flushes: list[int] = []
    after = flushed(lambda: flushes.append(1), lambda: [seen(looks[len(flushes) - 1]), None])
    return len(flushes), after


def test_one_flush_that_leaves_nothing_unwritten_is_enough() -> None:
    """Or a kernel that does not say."""
    assert tried(0) == (1, [seen(0), None])
    assert tried(None) == (1, [seen(None), None])


def test_what_a_file_system_writes_between_flush_and_look_accuses_nobody() -> None:
    """The next flush covers it."""
    assert tried(8192, 0) == (2, [seen(0), None])


def test_a_layer_that_has_unwritten_bytes_after_every_flush_is_found() -> None:
    """It has them at the last look."""
    assert tried(*[4096] * FLUSHES) == (FLUSHES, [seen(4096), None])
