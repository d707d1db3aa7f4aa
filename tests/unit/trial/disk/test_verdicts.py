"""Limits of a disk program: its parameters, a thread on the data path, a line, the queue depth; otherwise none."""

from dataclasses import replace

import pytest
from tests.wording import in_words

from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.messages.disks import BytesThrottled, DepthHeld, OperationsThrottled
from iolab.messages.evidence import ThreadRan
from iolab.messages.places import AtMachine, AtPort
from iolab.results.verdict import Limit
from iolab.trial.disk.figures import DiskFigure
from iolab.trial.disk.verdict import Line, judge
from iolab.trial.disk.workers import Busy, Worker, busiest, threads_of

SECOND_NS = 1_000_000_000
SLOW = {"bytes": 40_000_000, "operations": 500}


def disk(**throttle: int) -> Disk:
    """Return a disk throttled by QEMU."""
    return Disk.model_validate({"volume": "v", "via": "user", "throttle": throttle or None})


def measure(**fio: object) -> DiskMeasure:
    """Return a measure with fio."""
    return DiskMeasure.model_validate({"kind": "disk", "on": "pc2", "program": "fio", "fio": fio})


def phase(operations: int, block: int, name: str = "read", seconds: float = 5) -> DiskFigure:
    """Return a phase."""
    return DiskFigure(name, block, operations * block, operations, round(seconds * SECOND_NS))


def test_phase_at_the_byte_or_operation_limit_of_the_throttle_is_limited_by_the_throttle() -> None:
    """Name the limit, and how close the phase was."""
    by_count = judge(measure(), disk(**SLOW), [phase(2490, 4096)])
    assert by_count is not None
    assert by_count.limit is Limit.THROTTLE
    (seen,) = by_count.seen
    assert isinstance(seen, OperationsThrottled)
    assert (seen.phase, seen.most) == ("read", 500)
    assert seen.passed_ratio == pytest.approx(0.996)
    by_bytes = judge(measure(), disk(**SLOW), [phase(200, 1_000_000)])
    assert by_bytes is not None
    assert by_bytes.seen == (BytesThrottled(phase="read", passed_ratio=1.0, most_bytes=40_000_000),)


@pytest.mark.parametrize("operations", [2300, 5000])
def test_slower_or_cached_phase_is_not_limited_by_the_throttle(operations: int) -> None:
    """Exclude 92 % of it, and twice of it."""
    assert judge(measure(), disk(**SLOW), [phase(operations, 4096)]) is None


def test_disk_without_a_throttle_has_no_throttle_verdict() -> None:
    """Exclude a trial that spent most time elsewhere."""
    assert judge(measure(), disk(), [phase(2500, 4096)]) is None
    mostly_free = [phase(500, 4096, seconds=1), phase(900, 4096, "write", seconds=9)]
    assert judge(measure(), disk(**SLOW), mostly_free) is None


def test_reads_and_writes_of_a_mixed_phase_share_one_throttle() -> None:
    """Add them, although each is below the limit."""
    found = judge(measure(), disk(**SLOW), [phase(1750, 4096, "mixed-read"), phase(750, 4096, "mixed-write")])
    assert found is not None
    assert found.limit is Limit.THROTTLE


def test_offered_rate_is_the_limit_if_it_was_reached() -> None:
    """Exclude a rate that the disk could not reach."""
    reached = judge(measure(offered=200), disk(), [phase(1000, 4096)])
    assert reached is not None
    assert reached.limit is Limit.RATE
    assert judge(measure(offered=400), disk(), [phase(1000, 4096)]) is None


def test_saturated_thread_is_the_limit_if_the_throttle_is_not() -> None:
    """Name the program's own thread, otherwise one on the data path."""
    own = [replace(phase(2500, 4096), cpu_ns=round(4.9 * SECOND_NS))]
    found = judge(measure(), disk(), own)
    assert found is not None
    assert (found.limit, found.place) == (Limit.WORKER, AtMachine(machine="pc2"))
    assert found.seen == (ThreadRan(thread="fio", busy_ratio=0.98),)
    target = judge(measure(), disk(), [replace(own[0], cpu_ns=SECOND_NS)], Busy("pc3", "tgtd", 0.99))
    assert target is not None
    assert (target.place, target.seen) == (
        AtMachine(machine="pc3"), (ThreadRan(thread="tgtd", busy_ratio=0.99),)
    )  # fmt: skip
    throttled = judge(measure(), disk(**SLOW), own, Busy("pc3", "tgtd", 0.99))
    assert throttled is not None
    assert throttled.limit is Limit.THROTTLE


@pytest.mark.parametrize(("passed_bps", "limited"), [(94e6, True), (80e6, False)])
def test_full_line_is_the_limit(passed_bps: float, limited: bool) -> None:
    """Compare payload, which is slightly less than the line carries."""
    found = judge(measure(), disk(), [phase(2500, 4096)], None, Line("pc3.eth0", passed_bps, 100e6))
    assert (found is not None) == limited
    if found is not None:
        assert (found.limit, found.place) == (Limit.LINE, AtPort(port="pc3.eth0"))


def test_queue_depth_is_the_limit_if_a_larger_depth_is_faster() -> None:
    """Require it for most of the time; exclude a depth beyond which nothing improves."""
    one, eight, more = (replace(phase(done, 4096), depth=at) for done, at in ((100, 1), (700, 8), (750, 32)))
    found = judge(measure(), disk(), [one, eight])
    assert found is not None
    assert found.limit is Limit.DEPTH
    assert found.seen == (DepthHeld(phase="read", block_bytes=4096, depth=1, deeper=8, gain=7.0),)
    assert judge(measure(), disk(), [one, eight, more]) is None
    other = replace(phase(700, 65536), depth=8)
    assert judge(measure(), disk(), [one, other]) is None


def test_gain_of_a_larger_queue_depth_is_stated_as_a_factor() -> None:
    """Write a ratio above one as times, not as percent."""
    held = DepthHeld(phase="read", block_bytes=4096, depth=1, deeper=8, gain=7.0)
    told = "read with a block size of 4 KiB was 7.0 times as fast at queue depth 8 as at queue depth 1"
    assert in_words(held) == told


TGTD = Worker("pc3", 7, "tgtd", 5 * SECOND_NS)


def after(run_ns: int, tid: int = 7) -> Worker:
    """Return the thread at a later time."""
    return Worker("pc3", tid, "tgtd", run_ns)


def test_thread_list_is_parsed_per_line_and_malformed_lines_are_ignored() -> None:
    """Accept names with spaces."""
    text = "7 5000000000 tgtd\n8 12 CPU 0/TCG\nsh: nothing\n9 12\n"
    assert list(threads_of("pc3", text)) == [TGTD, Worker("pc3", 8, "CPU 0/TCG", 12)]


def test_thread_that_ran_all_the_time_is_reported_as_the_busiest() -> None:
    """Count a new thread from its start."""
    assert busiest([TGTD], [after(15 * SECOND_NS)], 10 * SECOND_NS, 11 * SECOND_NS) == Busy(
        "pc3", "tgtd", 1.0
    )
    assert busiest([], [after(9_600_000_000, 8)], 10 * SECOND_NS, 10 * SECOND_NS) == Busy("pc3", "tgtd", 0.96)


def test_thread_with_idle_time_is_not_reported_as_the_busiest() -> None:
    """Exclude one that may have run while nothing was measured."""
    assert busiest([TGTD], [after(14 * SECOND_NS)], 10 * SECOND_NS, 10 * SECOND_NS) is None
    assert busiest([TGTD], [after(15 * SECOND_NS)], 10 * SECOND_NS, 20 * SECOND_NS) is None
    assert busiest([], [], 10 * SECOND_NS, 10 * SECOND_NS) is None
