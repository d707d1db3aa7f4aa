"""Threads of guests: found among a parent's, named the same in every run, and named by verdicts when they limit."""

from dataclasses import replace

from iolab.agent.messages import Observation, Reading, ThreadTimes
from iolab.trial.balance import Balance, Drop
from iolab.trial.guest_use import guest_threads
from iolab.trial.search.types import LoadResult
from iolab.trial.site import GuestPlace
from iolab.trial.verdict import CpuUse, Limit, Thread, judge

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
    drops = (Drop("dut.eth0", "ring full", 100),)
    return result, Balance("a->b", 1000, 900, drops, 0)


def test_a_guests_threads_have_names_that_do_not_change_from_run_to_run() -> None:
    """Process ids are not in them; threads that did nothing are left out."""
    found = {thread.name: round(thread.busy_ratio, 2) for thread in threads(vcpu=0.5, vhost=0.25, main=0.1)}
    assert found == {"vCPU 0": 0.5, "vhost 0": 0.25, "hypervisor": 0.1}


def test_loss_at_a_guest_whose_vhost_thread_has_no_time_left_names_it_though_the_host_is_idle() -> None:
    """The thread, its CPU, the idle share, and the place where frames were lost."""
    result, balance = lossy()
    cpus = [CpuUse(0, 0.3, 0.0, 0.0), CpuUse(4, 1.0, 0.0, 0.0)]
    verdict = judge(result, 0.0001, [balance], cpus, threads(vcpu=0.6, vhost=1.0))
    assert (verdict.limit, verdict.place) == (Limit.THREAD, "dut.eth0")
    assert (
        "vhost 0 of dut ran 100% of the time, on CPU 4, while the host's CPUs were 35% idle" in verdict.text
    )


def test_loss_at_a_guest_with_time_left_is_told_of_the_place_alone() -> None:
    """No thread is blamed that could have done more."""
    result, balance = lossy()
    verdict = judge(result, 0.0001, [balance], [], threads(vcpu=0.6, vhost=0.5))
    assert (verdict.limit, verdict.place) == (Limit.HOP, "dut.eth0")


def test_loss_at_a_guest_whose_cpu_others_took_names_the_cpu_and_who_took_it() -> None:
    """What the trial's own threads did not use is told to be somebody else's."""
    result, balance = lossy()
    cpus = [CpuUse(0, 0.1, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)]
    waiting = [
        replace(one, wait_ratio=0.7 if one.name == "vCPU 0" else 0.0) for one in threads(vcpu=0.2, main=0.1)
    ]
    verdict = judge(result, 0.0001, [balance], cpus, waiting)
    assert (verdict.limit, verdict.place) == (Limit.CPU, "dut.eth0")
    assert "CPU 1 was 100% busy, vCPU 0 of dut having 20% of it, and waiting for it 70%" in verdict.text
    assert "beside hypervisor 10% and 70% of work that is not of this trial" in verdict.text


def test_a_guest_that_did_not_wait_for_its_cpu_does_not_blame_it() -> None:
    """A guest that is stopped, or whose card is down, leaves the CPU to others of its own accord."""
    result, balance = lossy()
    cpus = [CpuUse(1, 1.0, 0.0, 0.0)]
    assert judge(result, 0.0001, [balance], cpus, threads(vcpu=0.2)).limit is Limit.HOP


def test_what_is_lost_inside_a_guest_is_not_told_of_the_cpu_that_others_took() -> None:
    """A rule, a shaper or a short backlog of the guest drops frames while it runs."""
    result, balance = lossy()
    cpus = [CpuUse(0, 0.1, 0.0, 0.0), CpuUse(1, 1.0, 0.0, 0.0)]
    for reason in ("qdisc", "backlog", "not passed on to dut.eth1"):
        inside = replace(balance, drops=(Drop("dut.eth1", reason, 100),))
        waiting = [replace(one, wait_ratio=0.7) for one in threads(vcpu=0.2)]
        assert judge(result, 0.0001, [inside], cpus, waiting).limit is Limit.HOP


def test_loss_at_a_guest_of_which_nothing_ran_says_so() -> None:
    """A stopped hypervisor uses no time at all."""
    result, balance = lossy()
    verdict = judge(result, 0.0001, [balance], [], threads())
    assert (verdict.limit, verdict.place) == (Limit.HOP, "dut.eth0")
    assert "no thread of dut ran" in verdict.text
