"""Threads of guests and hosts: saturated, waiting, and competing ones."""

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
    """Return the parent agent's reading of a guest's threads, and of a foreign thread."""
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
    """Return the threads of a guest with these run times in a second."""
    names = {"vcpu": "CPU 0/KVM", "vhost": "vhost-5152", "main": "qemu-system-x86"}
    after = {names[name]: round(ratio * SECOND_NS) for name, ratio in run_ratio.items()}
    places = {"dut": GuestPlace("", "guest:dut")}
    return guest_threads(places, {"": reading({})}, {"": reading(after)}, SECOND_NS)


def test_threads_of_a_guest_run_on_the_cpus_of_its_parent() -> None:
    """Attribute them to the sender's host only if frames are sent there."""
    places = {"dut": GuestPlace("pc7", "guest:dut")}
    before, after = {"pc7": reading({})}, {"pc7": reading({"CPU 0/KVM": SECOND_NS})}
    elsewhere = guest_threads(places, before, after, SECOND_NS)
    assert {one.kernel for one in elsewhere} == {"pc7"}
    beside_the_sender = guest_threads(places, before, after, SECOND_NS, "pc7")
    assert {one.kernel for one in beside_the_sender} == {""}


BALANCE = Balance("a->b", 1000, 900, (Drop(AtPort(port="dut.eth0"), RING_FULL, 100),), 0)
"""Balance of a trial that lost a tenth of its frames at the guest's ingress."""


def blamed(
    threads: Sequence[Thread],
    cpus: Sequence[CpuUse] = (),
    balance: Balance = BALANCE,
    forwarded_frames: int = 900,
) -> Verdict:
    """Return the verdict on that trial."""
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


def test_guest_thread_names_are_stable_across_runs() -> None:
    """Use no process IDs; leave idle threads out."""
    found = {thread.name: round(thread.busy_ratio, 2) for thread in threads(vcpu=0.5, vhost=0.25, main=0.1)}
    assert found == {"vCPU 0": 0.5, "vhost 0": 0.25, "hypervisor": 0.1}


def test_verdict_on_loss_at_a_guest_names_its_saturated_vhost_thread() -> None:
    """Name thread, CPU, idle share, and the place of the loss."""
    cpus = [CpuUse(0, 0.3, 0.0, 0.0), CpuUse(4, 1.0, 0.0, 0.0)]
    verdict = blamed(threads(vcpu=0.6, vhost=1.0), cpus)
    assert (verdict.limit, verdict.place) == (Limit.THREAD, AtPort(port="dut.eth0"))
    assert "vhost 0 of dut ran 100 % of the time on CPU 4, while the host's CPUs were 35 % idle" in in_words(
        verdict.seen
    )


def test_verdict_on_loss_at_a_guest_with_idle_threads_names_only_the_place() -> None:
    """Name no thread with idle time."""
    verdict = blamed(threads(vcpu=0.6, vhost=0.5))
    assert (verdict.limit, verdict.place) == (Limit.HOP, AtPort(port="dut.eth0"))


def test_verdict_on_loss_at_a_guest_names_the_cpu_that_others_used_and_those_programs() -> None:
    """Attribute CPU time outside the trial's threads to others."""
    cpus = [CpuUse(0, 0.1, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)]
    waiting = [
        replace(one, wait_ratio=0.7 if one.name == "vCPU 0" else 0.0) for one in threads(vcpu=0.2, main=0.1)
    ]
    verdict = blamed(waiting, cpus)
    assert (verdict.limit, verdict.place) == (Limit.CPU, AtPort(port="dut.eth0"))
    assert "CPU 1 was 100 % busy; vCPU 0 of dut ran 20 % and waited for a CPU 70 %" in in_words(verdict.seen)
    assert (
        "the same CPU also ran hypervisor (10 %); programs outside this trial used 70 % of the same CPU"
        in in_words(verdict.seen)
    )


def test_guest_that_did_not_wait_for_a_cpu_is_not_limited_by_that_cpu() -> None:
    """Allow for a stopped guest, and one with its NIC down."""
    cpus = [CpuUse(1, 1.0, 0.0, 0.0)]
    assert blamed(threads(vcpu=0.2), cpus).limit is Limit.HOP


def test_guest_that_forwarded_nothing_is_starved_only_if_it_hardly_ran() -> None:
    """Allow for a misconfigured guest on a busy host."""
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


def test_verdict_on_a_migrating_thread_names_no_cpu_unless_all_cpus_are_busy() -> None:
    """Do not use the last CPU of a thread as the place of its wait."""
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


def test_saturated_migrating_thread_is_reported_on_several_cpus() -> None:
    """Name a core only if it is known."""
    moved = [replace(one, cpu=None) for one in threads(vhost=1.0)]
    assert "on several CPUs" in in_words(blamed(moved).seen)


def test_drop_by_a_rule_or_queue_inside_a_guest_is_not_blamed_on_a_cpu() -> None:
    """Do not blame a CPU for drops by a rule, a shaper or a short backlog of a running guest."""
    cpus = [CpuUse(0, 0.1, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)]
    for reason in (QDISC, BACKLOG, NotPassedOn(out="dut.eth1")):
        inside = replace(BALANCE, drops=(Drop(AtPort(port="dut.eth1"), reason, 100),))
        waiting = [replace(one, wait_ratio=0.7) for one in threads(vcpu=0.2)]
        assert blamed(waiting, cpus, balance=inside).limit is Limit.HOP


def test_loss_at_a_guest_with_no_running_thread_is_reported_as_such() -> None:
    """Detect a stopped hypervisor."""
    verdict = blamed(threads())
    assert (verdict.limit, verdict.place) == (Limit.HOP, AtPort(port="dut.eth0"))
    assert "no thread of dut ran" in in_words(verdict.seen)


def switch_threads(busy_ratio: float, worker: str = "rte-worker-1") -> tuple[Thread, ...]:
    """Return the threads of a guest with one NIC on a switch, whose worker ran for that part of a second."""

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
def test_thread_of_a_user_space_switch_is_recognised_as_polling_its_nic(worker: str) -> None:
    """Recognise DPDK's names, old and new; ignore the switch's control threads."""
    found = {one.name: (round(one.busy_ratio, 2), one.polls) for one in switch_threads(1.0, worker)}
    assert found == {"switch eth0": (1.0, "dut.eth0")}


def test_polling_thread_is_not_reported_as_saturated_because_it_is_busy() -> None:
    """Do not blame it for a full guest ring, or losses of a different NIC."""
    own = [*threads(vcpu=0.6), *switch_threads(1.0)]
    between = LostBetween(sender="a.p0", receiver="dut.eth0")
    for place, reason in ((AtPort(port="dut.eth0"), between), (AtPort(port="dut.eth1"), RING_FULL)):
        lost = replace(BALANCE, drops=(Drop(place, reason, 100),))
        verdict = blamed(own, balance=lost)
        assert (verdict.limit, verdict.place) == (Limit.HOP, place)
    busy = blamed([*threads(vcpu=1.0), *switch_threads(0.5)])
    assert "thread vCPU 0 of dut ran 100 %" in in_words(busy.seen)


def test_polling_thread_is_the_limit_if_frames_stayed_in_its_queue() -> None:
    """Require that it had its CPU all the time, and that nobody else reads the queue."""
    verdict = blamed([*threads(vcpu=0.6), *switch_threads(1.0)])
    assert (verdict.limit, verdict.place) == (Limit.THREAD, AtPort(port="dut.eth0"))
    assert "thread switch eth0 polls all the time, and was too slow for the lost frames;" in in_words(
        verdict.seen
    )


def test_ksoftirqd_threads_are_reported_with_their_cpu() -> None:
    """Leave out sleeping threads, and threads of servers."""
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
"""Recorded threads of a trial while a program of higher priority used the device's CPU 1."""
SENDER = Thread("generator", "generator", "tester.p0", 0, 0.95, 0.05)
VCPU = Thread("vCPU 0", GUEST, "dut", 0, 0.05, 0.87)
"""A vCPU thread on the sender's CPU, which gets only the time that the kernel reserves for threads without priority."""
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
    """Return the verdict on a second in which 90 of 100 frames were lost; its counters were read later."""
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


def test_guest_on_the_cpu_of_the_sender_waited_for_that_cpu_despite_idle_time_after_the_trial() -> None:
    """Allow for half a second of empty line in the CPU reading."""
    verdict = said((SENDER, VCPU), CpuUse(0, 0.68, 0.0, 0.0), CpuUse(1, 0.2, 0.0, 0.0), drained_s=0.5)
    assert (verdict.limit, verdict.place) == (Limit.HOST, AtPort(port="dut.eth0"))
    assert (
        "CPU 0 was busy with work other than the waiting thread; vCPU 0 of dut ran 5 % and waited for a CPU 87 % of "
        "the time; the same CPU also ran generator (95 %);" in in_words(verdict.seen)
    )


def test_guest_on_a_remote_host_is_compared_with_the_cpus_of_that_host() -> None:
    """Distinguish its CPU 0 from the sender's."""
    there = replace(VCPU, kernel="pc7")
    senders = CpuUse(0, 0.95, 0.0, 0.0)
    other = replace(there, name="vCPU 1", place="other", busy_ratio=0.93, wait_ratio=0.05)
    busy = CpuUse(0, 0.99, 0.0, 0.0, kernel="pc7")
    verdict = said((SENDER, there, other), senders, busy)
    assert verdict.limit is Limit.CPU
    assert "CPU 0 of pc7 was 99 % busy" in in_words(verdict.seen)
    assert in_words(verdict.seen).count("the same CPU also ran vCPU 1 (93 %);") == 1
    assert said((SENDER, there), senders).limit is Limit.HOP, "of its own CPUs nothing is known"


def test_thread_that_waited_longer_than_its_cpu_was_busy_must_have_waited_elsewhere() -> None:
    """Do not assume that it stayed on the CPU where it was before and after."""
    verdict = said((VCPU,), CpuUse(0, 0.5, 0.0, 0.0), CpuUse(1, 0.9, 0.0, 0.0), drained_s=0.5)
    assert verdict.limit is Limit.HOP
    assert "waited for a CPU 87 %" in in_words(verdict.seen)


def test_thread_that_slept_is_not_the_limit_unless_its_cpu_was_full() -> None:
    """Name the full CPU then."""
    slept = replace(VCPU, busy_ratio=0.2, wait_ratio=0.4)
    assert said((slept,), CpuUse(0, 0.7, 0.0, 0.0)).limit is Limit.HOP
    assert said((slept,), CpuUse(0, 0.97, 0.0, 0.0)).limit is Limit.CPU


def test_device_cpu_that_foreign_programs_used_is_named_instead_of_the_receiver() -> None:
    """Check a receiver that ran longer than the device, both hardly at all."""
    verdict = said((NAPI, *BESIDE), IDLE, CpuUse(1, 1.0, 0.0, 0.0), place=AtPort(port="a.eth0"))
    assert (verdict.limit, verdict.place) == (Limit.CPU, AtPort(port="a.eth0"))
    assert (
        "CPU 1 was 100 % busy; napi/eth0-447 of a.eth0 ran 2 % and waited for a CPU 93 % of the time; "
        "programs outside this trial used 98 % of the same CPU" in in_words(verdict.seen)
    )


def test_receiver_is_the_limit_if_it_used_the_cpu_of_the_device() -> None:
    """Name the instrument's own thread."""
    ours = replace(BESIDE[3], busy_ratio=0.72)
    verdict = said(
        (replace(NAPI, busy_ratio=0.2, wait_ratio=0.75), ours),
        CpuUse(1, 1.0, 0.0, 0.0),
        place=AtPort(port="a.eth0"),
    )
    assert verdict.limit is Limit.RECEIVER
    assert "the same CPU also ran receiver (72 %);" in in_words(verdict.seen)


def test_cpu_limit_is_not_blamed_on_foreign_programs_if_the_device_hardly_waited() -> None:
    """Name threads that share the device's CPU by design."""
    busy = CpuUse(1, 1.0, 0.0, 0.0)
    napi = replace(NAPI, busy_ratio=0.36, wait_ratio=0.17)
    assert said((napi, *BESIDE), busy, place=AtPort(port="a.eth0")).limit is Limit.HOP
    shared = said((napi, replace(BESIDE[2], busy_ratio=0.34)), busy, place=AtPort(port="a.eth0"))
    assert shared.limit is Limit.CPU
    assert "napi/eth0-447 ran 36 % of the time; the same CPU also ran napi/p1-451" in in_words(shared.seen)


def test_disturbed_host_verdict_names_the_place_whose_thread_waited() -> None:
    """Keep the cause of the stall in the text."""
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
def test_disturbed_host_verdict_has_no_place_if_no_thread_lost_the_frames(
    napi: Thread, place: Place, reason: DropReason, dropped: int
) -> None:
    """Give no place for a short wait, a foreign queue, a decision, or inexact counters."""
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


def test_steal_and_softirq_time_are_reported_by_kind_and_not_as_foreign_work() -> None:
    """Use their separate counters."""
    verdict = said(
        (NAPI, replace(BESIDE[3], busy_ratio=0.03)), CpuUse(1, 1.0, 0.3, 0.65), place=AtPort(port="a.eth0")
    )
    assert verdict.limit is Limit.CPU, "the receiver ran longer than the device, and had none of the rest"
    taken = "the CPU's steal time was 65 %; the CPU's softirq time was 30 %"
    assert f"CPU 1 was 100 % busy; {taken}; napi" in in_words(verdict.seen)
    assert "the same CPU also ran receiver (3 %);" in in_words(verdict.seen)


def test_run_and_wait_time_of_a_thread_are_at_most_the_trial_time() -> None:
    """Limit times read before the first frame and after the drain barrier."""

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


def test_vcpu_that_waited_for_unidentified_work_gives_a_doubtful_limit() -> None:
    """Doubt the limit of a vCPU that ran 9 % and waited 91 % of the time."""
    waiting = replace(VCPU, cpu=1, busy_ratio=0.09, wait_ratio=0.91)
    verdict = said(
        (replace(SENDER, busy_ratio=0.4), waiting), CpuUse(0, 0.4, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)
    )
    assert verdict.limit is Limit.CPU
    assert "unidentified work used 91 % of the same CPU" in in_words(verdict.doubt)


def test_migrating_vcpu_that_waited_for_unidentified_work_gives_a_doubtful_limit() -> None:
    """Check a vCPU that moved between busy CPUs."""
    waiting = replace(VCPU, cpu=None, busy_ratio=0.09, wait_ratio=0.91)
    verdict = said(
        (replace(SENDER, busy_ratio=0.5), waiting), CpuUse(0, 1.0, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)
    )
    assert verdict.limit is Limit.CPU
    assert "unidentified work used" in in_words(verdict.doubt)


def test_vcpu_that_waited_for_the_devices_own_threads_gives_a_certain_limit() -> None:
    """Check a neighbour thread of the same guest."""
    own = Thread("vhost 0", GUEST, "dut", 1, 0.6, 0.35)
    waiting = replace(VCPU, cpu=1, busy_ratio=0.38, wait_ratio=0.6)
    verdict = said((SENDER, waiting, own), CpuUse(0, 0.95, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0))
    assert (verdict.limit, verdict.doubt) == (Limit.CPU, None)
