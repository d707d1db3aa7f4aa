"""Threads that waited for a CPU: with who had it, at the place where frames were lost, and never instead of it."""

from dataclasses import replace

import pytest
from tests.wording import in_words

from iolab.agent.messages import ThreadTimes
from iolab.messages.drop_reasons import DropReason, NotPassedOnFor
from iolab.messages.evidence import (
    Disturbance,
    HeldUp,
)
from iolab.messages.places import AtPort, Place
from iolab.results.balance import Balance, Drop
from iolab.results.search import LoadResult
from iolab.results.verdict import GUEST, CpuUse, Limit, Thread, Verdict
from iolab.trial.counters.cpu_use import run_and_wait
from iolab.trial.counters.drops import RING_FULL
from iolab.trial.packets.verdict import LoadReadings, judge

SECOND_NS = 1_000_000_000
IDLE = CpuUse(0, 0.1, 0.0, 0.0)
HELD_UP = HeldUp(code="receiver-held-up", port="tester.p1", times=2, longest_ns=500_100_000)
NAPI = Thread("napi/eth0-447", "device", "a.eth0", 1, 0.02, 0.93)
BESIDE = (
    Thread("generator", "generator", "tester.p0", 0, 0.94, 0.05),
    Thread("napi/eth0-449", "device", "b.eth0", 1, 0.002, 0.003),
    Thread("napi/p1-451", "napi", "tester.p1", 1, 0.015, 0.001),
    Thread("receiver", "receiver", "tester.p1", 1, 0.014, 0.98),
)
"""What else the trial had while a program of higher priority took CPU 1 from the device, as recorded."""
SENDER = Thread("generator", "generator", "tester.p0", 0, 0.95, 0.05)
VCPU = Thread("vCPU 0", GUEST, "dut", 0, 0.05, 0.87)
"""A guest on the sender's CPU, which leaves it what the kernel keeps for threads without priority."""

AT_GUEST = AtPort(port="dut.eth0")


def said(
    threads: tuple[Thread, ...],
    *cpus: CpuUse,
    place: Place = AT_GUEST,
    reason: DropReason = RING_FULL,
    dropped: int = 88,
    disturbed: Disturbance | None = None,
    drained_s: float = 0.0,
) -> Verdict:
    """Return the verdict of a second in which 90 of 100 frames were lost, whose counters were read later."""
    result = LoadResult(
        intended_fps=100.0, duration_ns=SECOND_NS, intended_frames=100, offered_frames=100, forwarded_frames=10,
        perturbations=(disturbed,) if disturbed else (), overhead_ns=round(drained_s * SECOND_NS),
    )  # fmt: skip
    balance = Balance("a->b", 100, 10, (Drop(place, reason, dropped),), 90 - dropped)
    return judge(
        result,
        1e-4,
        LoadReadings(balances=[balance], cpus=cpus, threads=threads, held_ns=SECOND_NS if disturbed else 0),
    )


def test_a_guest_on_the_senders_cpu_is_told_to_wait_for_it_though_the_cpu_rested_after_the_trial() -> None:
    """Half a second of an empty line lies in what is counted of the CPU, and not in what frames waited for."""
    verdict = said((SENDER, VCPU), CpuUse(0, 0.68, 0.0, 0.0), CpuUse(1, 0.2, 0.0, 0.0), drained_s=0.5)
    assert (verdict.limit, verdict.place) == (Limit.HOST, AtPort(port="dut.eth0"))
    assert (
        "CPU 0 had other work; vCPU 0 of dut ran 5 % and waited for a CPU 87 % of the time; "
        "beside it ran generator 95 %;" in in_words(verdict.seen)
    )


def test_a_guest_on_another_host_is_held_against_the_cpus_of_that_host() -> None:
    """Its CPU 0 is not the sender's."""
    there = replace(VCPU, kernel="pc7")
    senders = CpuUse(0, 0.95, 0.0, 0.0)
    other = replace(there, name="vCPU 1", place="other", busy_ratio=0.93, wait_ratio=0.05)
    busy = CpuUse(0, 0.99, 0.0, 0.0, kernel="pc7")
    verdict = said((SENDER, there, other), senders, busy)
    assert verdict.limit is Limit.CPU
    assert "CPU 0 of pc7 was 99 % busy" in in_words(verdict.seen)
    assert in_words(verdict.seen).count("beside it ran vCPU 1 93 %;") == 1
    assert said((SENDER, there), senders).limit is Limit.HOP, "of its own CPUs nothing is known"


def test_a_thread_that_waited_longer_than_its_cpu_was_busy_waited_elsewhere() -> None:
    """That it was on this CPU before and after is no evidence then."""
    verdict = said((VCPU,), CpuUse(0, 0.5, 0.0, 0.0), CpuUse(1, 0.9, 0.0, 0.0), drained_s=0.5)
    assert verdict.limit is Limit.HOP
    assert "waited for a CPU 87 %" in in_words(verdict.seen)


def test_a_thread_that_slept_beside_its_waiting_had_time_left() -> None:
    """Unless its CPU had none: then that is said."""
    slept = replace(VCPU, busy_ratio=0.2, wait_ratio=0.4)
    assert said((slept,), CpuUse(0, 0.7, 0.0, 0.0)).limit is Limit.HOP
    assert said((slept,), CpuUse(0, 0.97, 0.0, 0.0)).limit is Limit.CPU


def test_a_devices_cpu_that_strangers_took_is_named_and_not_the_receiver_beside_it() -> None:
    """The receiver ran for longer than the device, and both hardly at all."""
    verdict = said((NAPI, *BESIDE), IDLE, CpuUse(1, 1.0, 0.0, 0.0), place=AtPort(port="a.eth0"))
    assert (verdict.limit, verdict.place) == (Limit.CPU, AtPort(port="a.eth0"))
    assert (
        "CPU 1 was 100 % busy; napi/eth0-447 of a.eth0 ran 2 % and waited for a CPU 93 % of the time; "
        "98 % went to work that is not of this trial" in in_words(verdict.seen)
    )


def test_a_devices_cpu_that_the_receiver_took_is_the_receivers_doing() -> None:
    """The instrument's own thread had most of it, and says so."""
    ours = replace(BESIDE[3], busy_ratio=0.72)
    verdict = said(
        (replace(NAPI, busy_ratio=0.2, wait_ratio=0.75), ours),
        CpuUse(1, 1.0, 0.0, 0.0),
        place=AtPort(port="a.eth0"),
    )
    assert verdict.limit is Limit.RECEIVER
    assert "beside it ran receiver 72 %;" in in_words(verdict.seen)


def test_a_cpu_that_strangers_kept_busy_is_not_blamed_where_the_device_hardly_waited_for_it() -> None:
    """The device runs before work of lower priority; what shares its CPU by right is named."""
    busy = CpuUse(1, 1.0, 0.0, 0.0)
    napi = replace(NAPI, busy_ratio=0.36, wait_ratio=0.17)
    assert said((napi, *BESIDE), busy, place=AtPort(port="a.eth0")).limit is Limit.HOP
    shared = said((napi, replace(BESIDE[2], busy_ratio=0.34)), busy, place=AtPort(port="a.eth0"))
    assert shared.limit is Limit.CPU
    assert "napi/eth0-447 ran 36 % of the time; beside it ran napi/p1-451" in in_words(shared.seen)


def test_a_disturbed_host_is_blamed_with_the_place_whose_thread_waited_for_its_cpu() -> None:
    """What held the instrument up stays in the words."""
    cpus = (IDLE, CpuUse(1, 1.0, 0.0, 0.0))
    verdict = said((NAPI, *BESIDE), *cpus, place=AtPort(port="a.eth0"), disturbed=HELD_UP)
    assert (verdict.limit, verdict.place) == (Limit.HOST, AtPort(port="a.eth0"))
    assert in_words(verdict.seen).startswith("CPU 1 was 100 % busy; napi/eth0-447 of a.eth0")
    lost = "88 of 90 lost frames were dropped at a.eth0 (ring full)"
    assert in_words(verdict.seen).endswith(f"{lost}; {in_words(HELD_UP)}")
    guest = said((SENDER, replace(VCPU, cpu=1)), *cpus, disturbed=HELD_UP)
    assert (guest.limit, guest.place) == (Limit.HOST, AtPort(port="dut.eth0"))


@pytest.mark.parametrize(
    ("napi", "place", "reason", "dropped"),
    [
        (replace(NAPI, wait_ratio=0.1), AtPort(port="a.eth0"), RING_FULL, 88),
        (NAPI, AtPort(port="b.eth0"), RING_FULL, 88),
        (NAPI, AtPort(port="a.eth0"), NotPassedOnFor(reason="NOT_FORWARDED", out="a.eth1"), 88),
        (NAPI, AtPort(port="a.eth0"), RING_FULL, 40),
        (NAPI, AtPort(port="a.eth0"), RING_FULL, 17_000),
    ],
)
def test_a_disturbed_host_is_blamed_alone_where_no_thread_is_seen_to_have_lost_the_frames(
    napi: Thread, place: Place, reason: DropReason, dropped: int
) -> None:
    """The thread hardly waited, it was another's queue or a decision, or the counter tells of too few or too many."""
    verdict = said(
        (napi, *BESIDE),
        IDLE,
        CpuUse(1, 1.0, 0.0, 0.0),
        place=place,
        reason=reason,
        dropped=dropped,
        disturbed=HELD_UP,
    )
    assert (verdict.limit, verdict.place, verdict.seen) == (Limit.HOST, None, (HELD_UP,))


def test_time_that_no_thread_has_is_told_by_its_kind_and_not_as_other_work() -> None:
    """Steal and soft interrupts are known by themselves."""
    verdict = said(
        (NAPI, replace(BESIDE[3], busy_ratio=0.03)), CpuUse(1, 1.0, 0.3, 0.65), place=AtPort(port="a.eth0")
    )
    assert verdict.limit is Limit.CPU, "the receiver ran longer than the device, and had none of the rest"
    taken = "65 % of its time was steal; 30 % of its time went to soft interrupts"
    assert f"CPU 1 was 100 % busy; {taken}; napi" in in_words(verdict.seen)
    assert "beside it ran receiver 3 %;" in in_words(verdict.seen)


def test_what_a_thread_ran_and_waited_is_all_of_the_time_at_most() -> None:
    """Its times are read before the first frame and behind the drained barrier."""

    def times(run_ms: int, wait_ms: int) -> ThreadTimes:
        return ThreadTimes(
            pid=1, tid=1, name="napi/eth0-1", run_ns=run_ms * 10**6, wait_ns=wait_ms * 10**6, last_cpu=1
        )

    assert run_and_wait(times(5, 5), times(205, 505), SECOND_NS) == pytest.approx((0.2, 0.5))
    assert run_and_wait(times(0, 0), times(200, 1100), SECOND_NS) == pytest.approx((0.2, 0.8))
    assert run_and_wait(times(0, 0), times(1400, 1100), SECOND_NS) == pytest.approx((1.0, 0.0))


def test_a_vcpu_that_waited_for_unknown_programs_is_no_certain_limit() -> None:
    """It ran 9 % and waited 91 % of the time: how fast the device is was not seen."""
    waiting = replace(VCPU, cpu=1, busy_ratio=0.09, wait_ratio=0.91)
    verdict = said(
        (replace(SENDER, busy_ratio=0.4), waiting), CpuUse(0, 0.4, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)
    )
    assert verdict.limit is Limit.CPU
    assert "91 % of its CPU went to work that is not known" in in_words(verdict.doubt)


def test_a_vcpu_that_waited_for_any_cpu_while_unknown_programs_had_them_is_no_certain_limit() -> None:
    """It moved between CPUs, which all were busy."""
    waiting = replace(VCPU, cpu=None, busy_ratio=0.09, wait_ratio=0.91)
    verdict = said(
        (replace(SENDER, busy_ratio=0.5), waiting), CpuUse(0, 1.0, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)
    )
    assert verdict.limit is Limit.CPU
    assert "went to work that is not known" in in_words(verdict.doubt)


def test_a_vcpu_that_waited_for_the_devices_own_threads_is_a_certain_limit() -> None:
    """Its neighbour of the same guest had the CPU."""
    own = Thread("vhost 0", GUEST, "dut", 1, 0.6, 0.35)
    waiting = replace(VCPU, cpu=1, busy_ratio=0.38, wait_ratio=0.6)
    verdict = said((SENDER, waiting, own), CpuUse(0, 0.95, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0))
    assert (verdict.limit, verdict.doubt) == (Limit.CPU, None)
