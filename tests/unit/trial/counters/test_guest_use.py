"""Threads of guests: found among a parent's, named the same in every run, and named by verdicts when they limit."""

from dataclasses import replace

import pytest
from tests.wording import in_words

from iolab.agent.messages import Observation, Reading, ThreadTimes
from iolab.messages.drop_reasons import LostBetween, NotPassedOn
from iolab.messages.places import AtPort
from iolab.results.balance import Balance, Drop
from iolab.results.search import LoadResult
from iolab.results.verdict import CpuUse, Limit, Thread
from iolab.trial.counters.cpu_use import guest_threads, kernel_threads
from iolab.trial.counters.drops import BACKLOG, QDISC, RING_FULL
from iolab.trial.lab_access import GuestPlace
from iolab.trial.packets.verdict import LoadReadings, judge

SECOND_NS = 1_000_000_000
THREADS = {"qemu-system-x86": 5152, "CPU 0/KVM": 5160, "CPU 1/KVM": 5161, "vhost-5152": 5170}


def reading(run_ns: dict[str, int]) -> Reading:
    """Return what the parent's agent reads of a guest's threads, and of somebody else's."""
    rows = [
        ThreadTimes(
            process=process, pid=5152 if name != "vhost-5152" else tid, tid=tid, name=name,
            run_ns=run_ns.get(name, 0), last_cpu=4 if name.startswith("vhost") else 1,
        )
        for name, tid in THREADS.items()
        for process in ("guest:dut",)
    ]  # fmt: skip
    rows.append(ThreadTimes(process="server", pid=9, tid=9, name="iperf3", run_ns=SECOND_NS, last_cpu=0))
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


def lossy() -> tuple[LoadResult, Balance]:
    """Return a trial that lost a tenth of its frames where they enter the guest."""
    result = LoadResult(
        intended_fps=1000.0,
        duration_ns=SECOND_NS,
        intended_frames=1000,
        offered_frames=1000,
        forwarded_frames=900,
        perturbations=(),
        overhead_ns=0,
    )
    drops = (Drop(AtPort(port="dut.eth0"), RING_FULL, 100),)
    return result, Balance("a->b", 1000, 900, drops, 0)


def test_a_guests_threads_have_names_that_do_not_change_from_run_to_run() -> None:
    """Process ids are not in them; threads that did nothing are left out."""
    found = {thread.name: round(thread.busy_ratio, 2) for thread in threads(vcpu=0.5, vhost=0.25, main=0.1)}
    assert found == {"vCPU 0": 0.5, "vhost 0": 0.25, "hypervisor": 0.1}


def test_loss_at_a_guest_whose_vhost_thread_has_no_time_left_names_it_though_the_host_is_idle() -> None:
    """The thread, its CPU, the idle share, and the place where frames were lost."""
    result, balance = lossy()
    cpus = [CpuUse(0, 0.3, 0.0, 0.0), CpuUse(4, 1.0, 0.0, 0.0)]
    verdict = judge(
        result, 0.0001, LoadReadings(balances=[balance], cpus=cpus, threads=threads(vcpu=0.6, vhost=1.0))
    )
    assert (verdict.limit, verdict.place) == (Limit.THREAD, AtPort(port="dut.eth0"))
    assert "vhost 0 of dut ran 100 % of the time on CPU 4, while the host's CPUs were 35 % idle" in in_words(
        verdict.seen
    )


def test_loss_at_a_guest_with_time_left_is_told_of_the_place_alone() -> None:
    """No thread is blamed that could have done more."""
    result, balance = lossy()
    verdict = judge(
        result, 0.0001, LoadReadings(balances=[balance], cpus=[], threads=threads(vcpu=0.6, vhost=0.5))
    )
    assert (verdict.limit, verdict.place) == (Limit.HOP, AtPort(port="dut.eth0"))


def test_loss_at_a_guest_whose_cpu_others_took_names_the_cpu_and_who_took_it() -> None:
    """What the trial's own threads did not use counts as somebody else's."""
    result, balance = lossy()
    cpus = [CpuUse(0, 0.1, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)]
    waiting = [
        replace(one, wait_ratio=0.7 if one.name == "vCPU 0" else 0.0) for one in threads(vcpu=0.2, main=0.1)
    ]
    verdict = judge(result, 0.0001, LoadReadings(balances=[balance], cpus=cpus, threads=waiting))
    assert (verdict.limit, verdict.place) == (Limit.CPU, AtPort(port="dut.eth0"))
    assert "CPU 1 was 100 % busy; vCPU 0 of dut ran 20 % and waited for a CPU 70 %" in in_words(verdict.seen)
    assert "beside it ran hypervisor 10 %; 70 % went to work that is not of this trial" in in_words(
        verdict.seen
    )


def test_a_guest_that_did_not_wait_for_its_cpu_does_not_blame_it() -> None:
    """A guest that is stopped, or whose card is down, leaves the CPU to others of its own accord."""
    result, balance = lossy()
    cpus = [CpuUse(1, 1.0, 0.0, 0.0)]
    assert (
        judge(result, 0.0001, LoadReadings(balances=[balance], cpus=cpus, threads=threads(vcpu=0.2))).limit
        is Limit.HOP
    )


def test_a_guest_that_passed_nothing_on_is_starved_only_if_it_hardly_ran_at_all() -> None:
    """One that is set up wrongly passes nothing on either, and may wait for a CPU as everything on a busy host does."""
    result, balance = lossy()
    none = replace(result, forwarded_frames=0)
    balance = replace(balance, drops=(Drop(AtPort(port="dut.eth0"), RING_FULL, 1000),))
    sender = Thread("generator", "generator", "tester.p0", 1, 0.97)
    cpus = [CpuUse(0, 0.1, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)]

    def said(wait_ratio: float) -> tuple[Limit, str]:
        own = [replace(one, wait_ratio=wait_ratio) for one in threads(vcpu=0.03)]
        verdict = judge(none, 0.0001, LoadReadings(balances=[balance], cpus=cpus, threads=[*own, sender]))
        return verdict.limit, in_words(verdict.seen)

    assert said(0.6)[0] is Limit.HOP
    limit, text = said(0.97)
    assert limit is Limit.HOST
    assert "vCPU 0 of dut ran 3 % and waited for a CPU 97 % of the time; beside it ran generator 97 %" in text


def test_a_thread_that_moved_blames_no_cpu_but_all_of_them_where_all_are_busy() -> None:
    """Where a thread was last is no evidence of where it waited."""
    result, balance = lossy()
    moved = [replace(one, cpu=None, wait_ratio=0.5) for one in threads(vcpu=0.4)]
    busy, idle = CpuUse(0, 1.0, 0.0, 0.0), CpuUse(1, 0.5, 0.0, 0.0)
    assert (
        judge(result, 0.0001, LoadReadings(balances=[balance], cpus=[busy, idle], threads=moved)).limit
        is Limit.HOP
    )
    verdict = judge(
        result,
        0.0001,
        LoadReadings(balances=[balance], cpus=[busy, replace(idle, busy_ratio=0.96)], threads=moved),
    )
    assert verdict.limit is Limit.CPU
    none = replace(result, forwarded_frames=0)
    all_lost = replace(balance, drops=(Drop(AtPort(port="dut.eth0"), RING_FULL, 1000),))
    starved = [replace(one, wait_ratio=0.96) for one in moved]
    assert (
        judge(none, 0.0001, LoadReadings(balances=[all_lost], cpus=[busy, busy], threads=starved)).limit
        is Limit.HOP
    )
    assert "all CPUs were 96 % busy or more; vCPU 0 of dut ran 40 % and waited for a CPU 50 %" in in_words(
        verdict.seen
    )


def test_a_saturated_thread_that_moved_is_told_to_have_been_on_several_cpus() -> None:
    """The core is named only where it is known."""
    result, balance = lossy()
    moved = [replace(one, cpu=None) for one in threads(vhost=1.0)]
    assert "on several CPUs" in in_words(
        judge(result, 0.0001, LoadReadings(balances=[balance], cpus=[], threads=moved)).seen
    )


def test_what_is_lost_inside_a_guest_is_not_told_of_the_cpu_that_others_took() -> None:
    """A rule, a shaper or a short backlog of the guest drops frames while it runs."""
    result, balance = lossy()
    cpus = [CpuUse(0, 0.1, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)]
    for reason in (QDISC, BACKLOG, NotPassedOn(out="dut.eth1")):
        inside = replace(balance, drops=(Drop(AtPort(port="dut.eth1"), reason, 100),))
        waiting = [replace(one, wait_ratio=0.7) for one in threads(vcpu=0.2)]
        assert (
            judge(result, 0.0001, LoadReadings(balances=[inside], cpus=cpus, threads=waiting)).limit
            is Limit.HOP
        )


def test_loss_at_a_guest_of_which_nothing_ran_says_so() -> None:
    """A stopped hypervisor uses no time at all."""
    result, balance = lossy()
    verdict = judge(result, 0.0001, LoadReadings(balances=[balance], cpus=[], threads=threads()))
    assert (verdict.limit, verdict.place) == (Limit.HOP, AtPort(port="dut.eth0"))
    assert "no thread of dut ran" in in_words(verdict.seen)


def switch_threads(busy_ratio: float, worker: str = "rte-worker-1") -> tuple[Thread, ...]:
    """Return the threads of a guest of which one card is carried by a switch, whose worker ran so much of a second."""

    def read(ratios: dict[str, float]) -> Reading:
        rows = tuple(
            ThreadTimes(
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
    result, balance = lossy()
    own = [*threads(vcpu=0.6), *switch_threads(1.0)]
    between = LostBetween(sender="a.p0", receiver="dut.eth0")
    for place, reason in ((AtPort(port="dut.eth0"), between), (AtPort(port="dut.eth1"), RING_FULL)):
        lost = replace(balance, drops=(Drop(place, reason, 100),))
        verdict = judge(result, 0.0001, LoadReadings(balances=[lost], cpus=[], threads=own))
        assert (verdict.limit, verdict.place) == (Limit.HOP, place)
    busy = judge(
        result,
        0.0001,
        LoadReadings(balances=[balance], cpus=[], threads=[*threads(vcpu=1.0), *switch_threads(0.5)]),
    )
    assert "thread vCPU 0 of dut ran 100 %" in in_words(busy.seen)


def test_a_thread_that_polls_did_not_keep_up_where_frames_were_left_in_the_queue_that_it_reads() -> None:
    """It had its CPU all the time, and nobody else reads there."""
    result, balance = lossy()
    verdict = judge(
        result,
        0.0001,
        LoadReadings(balances=[balance], cpus=[], threads=[*threads(vcpu=0.6), *switch_threads(1.0)]),
    )
    assert (verdict.limit, verdict.place) == (Limit.THREAD, AtPort(port="dut.eth0"))
    assert "switch eth0 looks for frames all the time, and left these unread;" in in_words(verdict.seen)


def test_a_kernels_soft_interrupt_threads_are_told_of_where_they_ran() -> None:
    """ksoftirqd with its CPU; one that slept, and a server's thread, are left out."""
    names = {"ksoftirqd/0": (None, 20, 0), "ksoftirqd/1": (None, 21, 1), "iperf3": ("server", 22, 0)}

    def seen(run_ns: dict[str, int]) -> Reading:
        rows = [
            ThreadTimes(
                process=process, pid=tid, tid=tid, name=name, run_ns=run_ns.get(name, 0), last_cpu=cpu
            )
            for name, (process, tid, cpu) in names.items()
        ]
        return Reading((Observation(sampler="threads", begin_ns=0, end_ns=1, threads=tuple(rows)),))

    after = {"ksoftirqd/1": SECOND_NS // 2, "iperf3": SECOND_NS}
    (found,) = kernel_threads(seen({}), seen(after), SECOND_NS)
    assert (found.name, found.cpu, found.busy_ratio) == ("ksoftirqd/1", 1, 0.5)
