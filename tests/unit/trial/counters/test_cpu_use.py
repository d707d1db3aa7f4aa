"""Threads of guests and of hosts: which had no CPU time left, which waited, and who had their CPU."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.trial.zeros import zeros
from tests.wording import in_words

from iolab.agent.answers import Observation, Reading
from iolab.agent.messages import ThreadTimes
from iolab.messages.drop_reasons import (
    DropReason,
    LostBetween,
    NotPassedOn,
    NotPassedOnFor,
)
from iolab.messages.evidence import Disturbance, HeldUp
from iolab.messages.places import AtPort, Place
from iolab.results.packets import Balance, Drop
from iolab.results.search import LoadResult
from iolab.results.verdict import GUEST, CpuUse, Limit, Thread, Verdict
from iolab.trial.counters.cpu_use import guest_threads, kernel_threads, run_and_wait
from iolab.trial.counters.drops import BACKLOG, QDISC, RING_FULL
from iolab.trial.lab_access import GuestPlace
from iolab.trial.packets.verdict import LoadReadings, judge

SECOND_NS = 1_000_000_000
THREADS = {"qemu-system-x86": 5152, "CPU 0/KVM": 5160, "CPU 1/KVM": 5161, "vhost-5152": 5170}


def reading(run_ns: dict[str, int]) -> Reading:
    """Return what the parent's agent reads of a guest's threads, and of somebody else's."""
    rows = [
        zeros(ThreadTimes,
            process=process, pid=5152 if name != "vhost-5152" else tid, tid=tid, name=name,
            run_ns=run_ns.get(name, 0), last_cpu=4 if name.startswith("vhost") else 1,
        )
        for name, tid in THREADS.items()
        for process in ("guest:dut",)
    ]  # fmt: skip
    rows.append(
        zeros(ThreadTimes, process="server", pid=9, tid=9, name="iperf3", run_ns=SECOND_NS, last_cpu=0)
    )
    return Reading((Observation(sampler="threads", begin_ns=0, end_ns=1, threads=tuple(rows)),))


def threads(**run_ratio: float) -> tuple[Thread, ...]:
    """Return the threads of a guest that ran so much of a second."""
    names = {"vcpu": "CPU 0/KVM", "vhost": "vhost-5152", "main": "qemu-system-x86"}
    after = {names[name]: round(ratio * SECOND_NS) for name, ratio in run_ratio.items()}
    places = {"dut": GuestPlace("", "guest:dut")}
    return guest_threads(places, {"": reading({})}, {"": reading(after)}, SECOND_NS)


def test_a_guests_threads_are_on_the_cpus_of_its_parent() -> None:
    """Which are the sender's only if frames are sent there."""
    places = {"dut": GuestPlace("pc7", "guest:dut")}
    before, after = {"pc7": reading({})}, {"pc7": reading({"CPU 0/KVM": SECOND_NS})}
    elsewhere = guest_threads(places, before, after, SECOND_NS)
    assert {one.kernel for one in elsewhere} == {"pc7"}
    beside_the_sender = guest_threads(places, before, after, SECOND_NS, "pc7")
    assert {one.kernel for one in beside_the_sender} == {""}


BALANCE = Balance("a->b", 1000, 900, (Drop(AtPort(port="dut.eth0"), RING_FULL, 100),), 0)
"""Of a trial that lost a tenth of its frames where they enter the guest."""


def blamed(
    threads: Sequence[Thread],
    cpus: Sequence[CpuUse] = (),
    balance: Balance = BALANCE,
    forwarded_frames: int = 900,
) -> Verdict:
    """Return what limited that trial."""
    result = LoadResult(
        intended_fps=1000.0,
        duration_ns=SECOND_NS,
        intended_frames=1000,
        offered_frames=1000,
        forwarded_frames=forwarded_frames,
        perturbations=(),
        overhead_ns=0,
    )
    return judge(result, 1e-4, LoadReadings(balances=[balance], cpus=cpus, threads=threads))


def test_a_guests_threads_have_names_that_do_not_change_from_run_to_run() -> None:
    """Process ids are not in them; threads that did nothing are left out."""
    found = {thread.name: round(thread.busy_ratio, 2) for thread in threads(vcpu=0.5, vhost=0.25, main=0.1)}
    assert found == {"vCPU 0": 0.5, "vhost 0": 0.25, "hypervisor": 0.1}


def test_loss_at_a_guest_whose_vhost_thread_has_no_time_left_names_it_though_the_host_is_idle() -> None:
    """The thread, its CPU, the idle share, and the place where frames were lost."""
    cpus = [CpuUse(0, 0.3, 0.0, 0.0), CpuUse(4, 1.0, 0.0, 0.0)]
    verdict = blamed(threads(vcpu=0.6, vhost=1.0), cpus)
    assert (verdict.limit, verdict.place) == (Limit.THREAD, AtPort(port="dut.eth0"))
    assert "vhost 0 of dut ran 100 % of the time on CPU 4, while the host's CPUs were 35 % idle" in in_words(
        verdict.seen
    )


def test_loss_at_a_guest_with_time_left_is_told_of_the_place_alone() -> None:
    """No thread is blamed that could have done more."""
    verdict = blamed(threads(vcpu=0.6, vhost=0.5))
    assert (verdict.limit, verdict.place) == (Limit.HOP, AtPort(port="dut.eth0"))


def test_loss_at_a_guest_whose_cpu_others_took_names_the_cpu_and_who_took_it() -> None:
    """What the trial's own threads did not use counts as somebody else's."""
    cpus = [CpuUse(0, 0.1, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)]
    waiting = [
        replace(one, wait_ratio=0.7 if one.name == "vCPU 0" else 0.0) for one in threads(vcpu=0.2, main=0.1)
    ]
    verdict = blamed(waiting, cpus)
    assert (verdict.limit, verdict.place) == (Limit.CPU, AtPort(port="dut.eth0"))
    assert "CPU 1 was 100 % busy; vCPU 0 of dut ran 20 % and waited for a CPU 70 %" in in_words(verdict.seen)
    assert (
        "the same CPU also ran hypervisor (10 %); programs outside this trial used 70 % of that CPU"
        in in_words(verdict.seen)
    )


def test_a_guest_that_did_not_wait_for_its_cpu_does_not_blame_it() -> None:
    """A guest that is stopped, or whose card is down, leaves the CPU to others of its own accord."""
    cpus = [CpuUse(1, 1.0, 0.0, 0.0)]
    assert blamed(threads(vcpu=0.2), cpus).limit is Limit.HOP


def test_a_guest_that_passed_nothing_on_is_starved_only_if_it_hardly_ran_at_all() -> None:
    """One that is set up wrongly passes nothing on either, and may wait for a CPU as everything on a busy host does."""
    balance = replace(BALANCE, drops=(Drop(AtPort(port="dut.eth0"), RING_FULL, 1000),))
    sender = Thread("generator", "generator", "tester.p0", 1, 0.97)
    cpus = [CpuUse(0, 0.1, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)]

    def said(wait_ratio: float) -> tuple[Limit, str]:
        own = [replace(one, wait_ratio=wait_ratio) for one in threads(vcpu=0.03)]
        verdict = blamed([*own, sender], cpus, balance, forwarded_frames=0)
        return verdict.limit, in_words(verdict.seen)

    assert said(0.6)[0] is Limit.HOP
    limit, text = said(0.97)
    assert limit is Limit.HOST
    assert (
        "vCPU 0 of dut ran 3 % and waited for a CPU 97 % of the time; the same CPU also ran generator (97 %)"
        in text
    )


def test_a_thread_that_moved_blames_no_cpu_but_all_of_them_where_all_are_busy() -> None:
    """Where a thread was last is no evidence of where it waited."""
    moved = [replace(one, cpu=None, wait_ratio=0.5) for one in threads(vcpu=0.4)]
    busy, idle = CpuUse(0, 1.0, 0.0, 0.0), CpuUse(1, 0.5, 0.0, 0.0)
    assert blamed(moved, [busy, idle]).limit is Limit.HOP
    verdict = blamed(moved, [busy, replace(idle, busy_ratio=0.96)])
    assert verdict.limit is Limit.CPU
    all_lost = replace(BALANCE, drops=(Drop(AtPort(port="dut.eth0"), RING_FULL, 1000),))
    starved = [replace(one, wait_ratio=0.96) for one in moved]
    assert blamed(starved, [busy, busy], all_lost, forwarded_frames=0).limit is Limit.HOP
    assert "all CPUs were at least 96 % busy; vCPU 0 of dut ran 40 % and waited for a CPU 50 %" in in_words(
        verdict.seen
    )


def test_a_saturated_thread_that_moved_is_told_to_have_been_on_several_cpus() -> None:
    """The core is named only where it is known."""
    moved = [replace(one, cpu=None) for one in threads(vhost=1.0)]
    assert "on several CPUs" in in_words(blamed(moved).seen)


def test_what_is_lost_inside_a_guest_is_not_told_of_the_cpu_that_others_took() -> None:
    """A rule, a shaper or a short backlog of the guest drops frames while it runs."""
    cpus = [CpuUse(0, 0.1, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)]
    for reason in (QDISC, BACKLOG, NotPassedOn(out="dut.eth1")):
        inside = replace(BALANCE, drops=(Drop(AtPort(port="dut.eth1"), reason, 100),))
        waiting = [replace(one, wait_ratio=0.7) for one in threads(vcpu=0.2)]
        assert blamed(waiting, cpus, balance=inside).limit is Limit.HOP


def test_loss_at_a_guest_of_which_nothing_ran_says_so() -> None:
    """A stopped hypervisor uses no time at all."""
    verdict = blamed(threads())
    assert (verdict.limit, verdict.place) == (Limit.HOP, AtPort(port="dut.eth0"))
    assert "no thread of dut ran" in in_words(verdict.seen)


def switch_threads(busy_ratio: float, worker: str = "rte-worker-1") -> tuple[Thread, ...]:
    """Return the threads of a guest of which one card is carried by a switch, whose worker ran so much of a second."""

    def read(ratios: dict[str, float]) -> Reading:
        rows = tuple(
            zeros(ThreadTimes,
                process="switch:dut.eth0", pid=60, tid=60 + number, name=name,
                run_ns=round(ratio * SECOND_NS), last_cpu=3,
            )
            for number, (name, ratio) in enumerate(ratios.items())
        )  # fmt: skip
        return Reading((Observation(sampler="threads", begin_ns=0, end_ns=1, threads=rows),))

    after = {"dpdk-testpmd": 0.0, worker: busy_ratio, "vhost-events": 0.02}
    places = {"dut": GuestPlace("", "guest:dut", {"switch:dut.eth0": "eth0"})}
    return guest_threads(places, {"": read(dict.fromkeys(after, 0.0))}, {"": read(after)}, SECOND_NS)


@pytest.mark.parametrize("worker", ["lcore-worker-1", "rte-worker-1", "dpdk-worker1"])
def test_the_thread_of_a_switch_is_told_to_poll_at_its_card(worker: str) -> None:
    """Its name is DPDK's, which has changed; the switch's other threads only take messages."""
    found = {one.name: (round(one.busy_ratio, 2), one.polls) for one in switch_threads(1.0, worker)}
    assert found == {"switch eth0": (1.0, "dut.eth0")}


def test_a_thread_that_polls_is_not_called_saturated_because_it_is_busy() -> None:
    """What it took and the guest's ring had no room for, or another card lost, is not blamed on it."""
    own = [*threads(vcpu=0.6), *switch_threads(1.0)]
    between = LostBetween(sender="a.p0", receiver="dut.eth0")
    for place, reason in ((AtPort(port="dut.eth0"), between), (AtPort(port="dut.eth1"), RING_FULL)):
        lost = replace(BALANCE, drops=(Drop(place, reason, 100),))
        verdict = blamed(own, balance=lost)
        assert (verdict.limit, verdict.place) == (Limit.HOP, place)
    busy = blamed([*threads(vcpu=1.0), *switch_threads(0.5)])
    assert "thread vCPU 0 of dut ran 100 %" in in_words(busy.seen)


def test_a_thread_that_polls_did_not_keep_up_where_frames_were_left_in_the_queue_that_it_reads() -> None:
    """It had its CPU all the time, and nobody else reads there."""
    verdict = blamed([*threads(vcpu=0.6), *switch_threads(1.0)])
    assert (verdict.limit, verdict.place) == (Limit.THREAD, AtPort(port="dut.eth0"))
    assert "switch eth0 busy-polls, but did not read these frames;" in in_words(verdict.seen)


def test_a_kernels_soft_interrupt_threads_are_told_of_where_they_ran() -> None:
    """ksoftirqd with its CPU; one that slept, and a server's thread, are left out."""
    names = {"ksoftirqd/0": (None, 20, 0), "ksoftirqd/1": (None, 21, 1), "iperf3": ("server", 22, 0)}

    def seen(run_ns: dict[str, int]) -> Reading:
        rows = [
            zeros(
                ThreadTimes,
                process=process,
                pid=tid,
                tid=tid,
                name=name,
                run_ns=run_ns.get(name, 0),
                last_cpu=cpu,
            )
            for name, (process, tid, cpu) in names.items()
        ]
        return Reading((Observation(sampler="threads", begin_ns=0, end_ns=1, threads=tuple(rows)),))

    after = {"ksoftirqd/1": SECOND_NS // 2, "iperf3": SECOND_NS}
    (found,) = kernel_threads(seen({}), seen(after), SECOND_NS)
    assert (found.name, found.cpu, found.busy_ratio) == ("ksoftirqd/1", 1, 0.5)


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
        "CPU 0 was busy with other work; vCPU 0 of dut ran 5 % and waited for a CPU 87 % of the time; "
        "the same CPU also ran generator (95 %);" in in_words(verdict.seen)
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
    assert in_words(verdict.seen).count("the same CPU also ran vCPU 1 (93 %);") == 1
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
        "programs outside this trial used 98 % of that CPU" in in_words(verdict.seen)
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
    assert "the same CPU also ran receiver (72 %);" in in_words(verdict.seen)


def test_a_cpu_that_strangers_kept_busy_is_not_blamed_where_the_device_hardly_waited_for_it() -> None:
    """The device runs before work of lower priority; what shares its CPU by right is named."""
    busy = CpuUse(1, 1.0, 0.0, 0.0)
    napi = replace(NAPI, busy_ratio=0.36, wait_ratio=0.17)
    assert said((napi, *BESIDE), busy, place=AtPort(port="a.eth0")).limit is Limit.HOP
    shared = said((napi, replace(BESIDE[2], busy_ratio=0.34)), busy, place=AtPort(port="a.eth0"))
    assert shared.limit is Limit.CPU
    assert "napi/eth0-447 ran 36 % of the time; the same CPU also ran napi/p1-451" in in_words(shared.seen)


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
    taken = "its steal time was 65 %; its softirq time was 30 %"
    assert f"CPU 1 was 100 % busy; {taken}; napi" in in_words(verdict.seen)
    assert "the same CPU also ran receiver (3 %);" in in_words(verdict.seen)


def test_what_a_thread_ran_and_waited_is_all_of_the_time_at_most() -> None:
    """Its times are read before the first frame and behind the drained barrier."""

    def times(run_ms: int, wait_ms: int) -> ThreadTimes:
        return zeros(
            ThreadTimes,
            pid=1,
            tid=1,
            name="napi/eth0-1",
            run_ns=run_ms * 10**6,
            wait_ns=wait_ms * 10**6,
            last_cpu=1,
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
    assert "unidentified work used 91 % of that CPU" in in_words(verdict.doubt)


def test_a_vcpu_that_waited_for_any_cpu_while_unknown_programs_had_them_is_no_certain_limit() -> None:
    """It moved between CPUs, which all were busy."""
    waiting = replace(VCPU, cpu=None, busy_ratio=0.09, wait_ratio=0.91)
    verdict = said(
        (replace(SENDER, busy_ratio=0.5), waiting), CpuUse(0, 1.0, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)
    )
    assert verdict.limit is Limit.CPU
    assert "unidentified work used" in in_words(verdict.doubt)


def test_a_vcpu_that_waited_for_the_devices_own_threads_is_a_certain_limit() -> None:
    """Its neighbour of the same guest had the CPU."""
    own = Thread("vhost 0", GUEST, "dut", 1, 0.6, 0.35)
    waiting = replace(VCPU, cpu=1, busy_ratio=0.38, wait_ratio=0.6)
    verdict = said((SENDER, waiting, own), CpuUse(0, 0.95, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0))
    assert (verdict.limit, verdict.doubt) == (Limit.CPU, None)
