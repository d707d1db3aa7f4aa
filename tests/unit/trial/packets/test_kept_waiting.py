"""A device program that waits for a busy-waiting sender: only its tail is marked."""

from dataclasses import replace

from iolab.messages.warnings import SenderKeptCpu
from iolab.results.packets import LoadRecord, Shaper, Summary
from iolab.results.search import LoadResult
from iolab.results.verdict import CpuUse, Limit, Thread, Verdict
from iolab.trial.packets.figures import fallen_short
from iolab.trial.packets.stalls import kept_waiting

SECOND_NS = 1_000_000_000
SENDER = Thread("generator", "generator", "tester.p0", 0, 0.93, 0.01)
RECEIVER = Thread("receiver", "receiver", "tester.p1", 1, 0.1, 0.01)
SHAPER = Shaper("dut.eth1", "tbf", 10_000, 10_000, 640_000, dropped_frames=0, held_back=40)
RECORD = LoadRecord(
    purpose="latency", share_ratio=None, begin_ns=0,
    result=LoadResult(
        intended_fps=5000.0, duration_ns=2 * SECOND_NS, intended_frames=10_000, offered_frames=10_000,
        forwarded_frames=10_000, perturbations=(), overhead_ns=40_000_000,
    ),
    directions=1, balances=(), verdict=Verdict(Limit.NONE), disorder=(0, 0), density=(),
    latency=Summary(count=10_000, min=20_000, mean=9e4, p50=60_000, p99=3_300_000, p999=4_000_000, max=5_000_000),
    cpus=(CpuUse(0, 0.99, 0.0, 0.0), CpuUse(1, 0.3, 0.05, 0.0)), threads=(SENDER, RECEIVER),
)  # fmt: skip
"""A user-space forwarder on two CPUs: alone it holds 99 of 100 frames for 0.1 ms at most."""


def test_latency_tail_is_marked_if_programs_waited_for_the_cpu_of_a_busy_waiting_sender() -> None:
    """Exclude the time of reading counters from the 6 % of CPU 0 left to programs."""
    seen = kept_waiting(RECORD)
    assert seen is not None
    assert (seen.cpu, seen.sender) == (0, SENDER)
    assert 0.05 < seen.others_ratio < 0.07
    (told,) = fallen_short([RECORD])
    assert isinstance(told, SenderKeptCpu)
    assert (told.port, told.p99_ns, told.kept_loads, told.loads) == ("tester.p0", 3_300_000, 1, 1)


def test_latency_tail_is_marked_if_the_sender_left_no_cpu_time_to_programs() -> None:
    """Check a device that waited 45 ms for the sender's CPU, while the other was idle."""
    use = CpuUse(0, 0.9458, 0.0, 0.0)
    seen = kept_waiting(replace(RECORD, cpus=(use,), threads=(replace(SENDER, busy_ratio=0.9473), RECEIVER)))
    assert seen is not None
    assert seen.others_ratio == 0.0


def test_latency_tail_behind_a_shaper_is_not_blamed_on_the_sender() -> None:
    """Exclude the sender's own work, softirqs and steal."""
    shaped = replace(RECORD, shapers=(SHAPER,))
    assert kept_waiting(shaped) is not None
    for use in (CpuUse(0, 0.93, 0.0, 0.0), CpuUse(0, 0.99, 0.06, 0.0), CpuUse(0, 0.99, 0.0, 0.06)):
        assert kept_waiting(replace(shaped, cpus=(use,))) is None


def test_latency_tail_is_not_marked_if_the_sender_sleeps() -> None:
    """Check a CPU that is half idle."""
    asleep = replace(SENDER, busy_ratio=0.4)
    assert kept_waiting(replace(RECORD, threads=(asleep, RECEIVER))) is None


def test_short_latency_tail_is_not_marked() -> None:
    """Exclude a latency that all frames share."""
    assert RECORD.latency is not None
    for p50, p99 in ((60_000, 900_000), (10_000_000, 10_500_000)):
        assert kept_waiting(replace(RECORD, latency=replace(RECORD.latency, p50=p50, p99=p99))) is None
    assert kept_waiting(replace(RECORD, latency=None)) is None
