"""Limits of a stream, each by the figures that show it; mere disturbances are warnings."""

from dataclasses import replace

import pytest
from tests.unit.trial.streams.flows import FAR, NEAR, TCP, datagrams, flow, seen

from iolab.experiment.model.impairments import DELIVERY_BYTES, Impairments
from iolab.messages.caveats import CauseUnsure
from iolab.messages.drop_reasons import ByChance, LongerThanMtu, NotPassedOnFor
from iolab.messages.places import AtMachine, AtPort, OnWire
from iolab.messages.streams import Limited, OfFlow, OtherFlows
from iolab.report.locale import EN
from iolab.results.packets import Drop, Shaper
from iolab.results.verdict import GUEST, CpuUse, Limit, Thread
from iolab.trial.counters.drops import RING_FULL, SOCKET
from iolab.trial.counters.passing import LevelChange
from iolab.trial.streams.disturbances import disturbances
from iolab.trial.streams.evidence import Carrier, FlowSeen, LineSeen, Passed, ShaperSeen, StreamSeen
from iolab.trial.streams.on_path import capacity_bytes
from iolab.trial.streams.verdict import judge

BUSY = replace(NEAR, run_ratio=0.98)
STARVED = replace(FAR, run_ratio=0.6, wait_ratio=0.35)
LAB_SHAPER = ShaperSeen(Shaper("a.eth1", "tbf", 9000, 9000, 12_000_000, 0, 500, (100_000_000,)), 96e6)
FOREIGN_SHAPER = replace(LAB_SHAPER, shaper=replace(LAB_SHAPER.shaper, rates_bps=()))
RULE = Drop(
    AtPort(port="a.eth0"), NotPassedOnFor(reason="NETFILTER_DROP", out="a.eth1"), 100, "NETFILTER_DROP"
)
LOSSY = replace(TCP, resent_bytes=10**7)


@pytest.mark.parametrize(
    ("one", "limit", "place"),
    [
        (flow(intended_bps=10e9), Limit.RATE, "near"),
        (datagrams(), Limit.RATE, "near"),
        (flow(sender=BUSY), Limit.THREAD, "near"),
        (flow(receiver=replace(FAR, run_ratio=0.97)), Limit.THREAD, "far"),
        (flow(sender=replace(NEAR, stopped_ns=200_000_000)), Limit.HOST, "near"),
        (flow(receiver=STARVED), Limit.CPU, "far"),
        (flow(tcp=replace(TCP, buffer_limited_ns=8 * 10**8)), Limit.WINDOW, "near"),
        (flow(tcp=replace(TCP, send_buffer_bytes=8192)), Limit.WINDOW, "near"),
        (flow(tcp=replace(TCP, receiver_limited_ns=8 * 10**8)), Limit.WINDOW, "far"),
        (flow(shapers=(LAB_SHAPER,), received_bps=96e6), Limit.SHAPER, "a.eth1"),
        (flow(shapers=(FOREIGN_SHAPER,), waiting={"a.eth1": 0.9}), Limit.SHAPER, "a.eth1"),
        (flow(lines=(LineSeen(place="near.eth0", passed_bps=0.96e9, rate_bps=1e9),)), Limit.LINE, "near.eth0"),
        (flow(tcp=LOSSY, retransmits=110, drops=(RULE,)), Limit.RULE, "a.eth0"),
        (flow(tcp=LOSSY, retransmits=4500, drops=(RULE,)), Limit.RULE, "a.eth0"),
        (datagrams(lost_datagrams=100, drops=(RULE,)), Limit.RULE, "a.eth0"),
        (datagrams(lost_datagrams=100, drops=(Drop(AtMachine(machine="far"), SOCKET, 100),)),
        Limit.RECEIVER, "far"),
        (datagrams(lost_datagrams=100, drops=(Drop(AtPort(port="b.eth0"), RING_FULL, 90),)), Limit.HOP, "b.eth0"),
        (datagrams(lost_datagrams=100), Limit.UNEXPLAINED, ""),
        (flow(carriers=(Carrier("a.eth1", 2),), stood_ns=300_000_000), Limit.HOP, "a.eth1"),
        (flow(tcp=replace(TCP, window_bytes=10**5, rtt_ns=100_000_000), received_bps=7e6), Limit.PATH, "near->far"),
        (flow(received_bps=1e9, tcp=None), Limit.UNEXPLAINED, ""),
    ],
)  # fmt: skip
def test_stream_limit_is_named_with_its_location(one: FlowSeen, limit: Limit, place: str) -> None:
    """Check one limit at a time."""
    verdict = judge(seen(one))
    assert (verdict.limit, EN.said.say_any(verdict.place)) == (limit, place)


def test_shaper_of_the_lab_below_its_rate_is_not_the_limit() -> None:
    """Blame the sender's thread if the shaper delayed only a burst."""
    idle = replace(LAB_SHAPER, passed_bps=32e6)
    assert judge(seen(flow(shapers=(idle,), sender=BUSY))).limit is Limit.THREAD


def test_foreign_shaper_without_a_queue_gives_a_doubtful_verdict() -> None:
    """Doubt it, because its rate is unknown and it dropped nothing."""
    held = replace(FOREIGN_SHAPER, shaper=replace(FOREIGN_SHAPER.shaper, held_back=2000))
    assert judge(seen(flow(shapers=(held,)))).doubt == CauseUnsure(code="shaper-unknown")


def test_drop_count_above_the_missing_datagrams_gives_a_doubtful_verdict() -> None:
    """Doubt the owner of the drops."""
    verdict = judge(seen(datagrams(lost_datagrams=100, drops=(replace(RULE, frames=5000),))))
    assert (verdict.limit, bool(verdict.doubt)) == (Limit.RULE, True)


def test_small_window_of_a_starved_receiver_is_not_the_limit() -> None:
    """Blame the CPU if the receiver's buffer had grown; blame a fixed buffer."""
    limited = replace(TCP, receiver_limited_ns=9 * 10**8)
    assert judge(seen(flow(tcp=limited, receiver=STARVED))).limit is Limit.CPU
    small = replace(limited, receive_buffer_bytes=8192)
    assert judge(seen(flow(tcp=small, receiver=STARVED))).limit is Limit.WINDOW


def test_saturated_receiver_takes_precedence_over_a_busy_sender() -> None:
    """Check the receive window of two saturated threads."""
    limited = replace(TCP, receiver_limited_ns=9 * 10**8)
    verdict = judge(seen(flow(sender=BUSY, receiver=replace(FAR, run_ratio=0.99), tcp=limited)))
    assert verdict.place == AtMachine(machine="far")


def test_saturated_hypervisor_thread_is_the_limit() -> None:
    """Check a vhost thread without a busy program."""
    vhost = Thread("vhost 0", "guest", "dut", 1, 0.99)
    verdict = judge(seen(threads=(vhost,)))
    assert (verdict.limit, verdict.place) == (Limit.THREAD, AtMachine(machine="dut"))


def test_all_busy_cpus_are_named_with_doubt() -> None:
    """Doubt it without a saturated thread."""
    cpus = tuple(CpuUse(cpu, 0.97, 0.3, 0.0) for cpu in (0, 1))
    verdict = judge(seen(flow(tcp=None), cpus=cpus))
    assert (verdict.limit, bool(verdict.doubt)) == (Limit.CPU, True)


def test_most_common_certain_limit_of_several_flows_is_named_with_the_others_in_the_text() -> None:
    """Check a both-ways trial with a shaper on the reverse path."""
    back = flow(name="far->near", source="far", target="near", shapers=(LAB_SHAPER,), received_bps=96e6)
    verdict = judge(seen(flow(tcp=None), back))
    assert (verdict.limit, verdict.place) == (Limit.SHAPER, AtPort(port="a.eth1"))
    assert [one.flow for one in verdict.seen if isinstance(one, OfFlow)] == ["near->far", "far->near"]
    assert verdict.doubt == OtherFlows(limits=(Limited(limit="unexplained"),))


def test_thread_that_waited_half_of_the_time_is_limited_by_the_cpu_even_if_it_slept() -> None:
    """Check a thread throttled by a CPU quota."""
    throttled = replace(NEAR, run_ratio=0.2, wait_ratio=0.63)
    verdict = judge(seen(flow(sender=throttled)))
    assert (verdict.limit, verdict.place) == (Limit.CPU, AtMachine(machine="near"))


def test_guest_whose_vcpu_waited_for_a_cpu_is_limited_by_the_cpu() -> None:
    """Ignore the full use inside the guest, if the vCPU ran for a third of the time."""
    busy = replace(NEAR, kernel="near", run_ratio=0.99)
    vcpu = Thread("near:CPU 0/TCG", GUEST, "near", None, 0.33, 0.66)
    verdict = judge(seen(flow(sender=busy), threads=(vcpu,)))
    assert (verdict.limit, verdict.place, verdict.seen[0].code) == (
        Limit.CPU, AtMachine(machine="near"), "guest-waited",
    )  # fmt: skip
    calm = replace(vcpu, busy_ratio=0.97, wait_ratio=0.01)
    assert judge(seen(flow(sender=busy), threads=(calm,))).limit is Limit.THREAD
    other = replace(vcpu, place="third")
    assert judge(seen(flow(sender=busy), threads=(other,))).limit is Limit.THREAD


def test_receiver_window_and_send_buffer_limit_a_sender_together() -> None:
    """Check two causes, each for less than half of the time."""
    small = replace(TCP, receiver_limited_ns=310_000_000, buffer_limited_ns=440_000_000)
    verdict = judge(seen(flow(tcp=small, received_bps=1e6)))
    assert verdict.limit is Limit.WINDOW


def test_window_that_opens_during_the_trial_is_judged_by_its_mean() -> None:
    """Use the mean, a quarter of the final window."""
    opening = replace(
        TCP, rtt_ns=400_000_000, window_bytes=1_850_000, mean_window_bytes=450_000, mean_rtt_ns=400_000_000
    )
    verdict = judge(seen(flow(tcp=opening, received_bps=6.7e6)))
    assert (verdict.limit, verdict.seen[0].code) == (Limit.PATH, "congestion-window")


def test_window_closed_by_a_slow_reader_is_attributed_to_the_reader() -> None:
    """Blame the window if the reader slept."""
    closed = replace(TCP, receiver_limited_ns=990_000_000)
    for run, wait, limit in ((0.45, 0.3, Limit.CPU), (0.8, 0.02, Limit.THREAD), (0.1, 0.05, Limit.WINDOW)):
        reader = replace(FAR, run_ratio=run, wait_ratio=wait)
        verdict = judge(seen(flow(tcp=closed, receiver=reader, received_bps=1e8)))
        assert (verdict.limit, verdict.place) == (limit, AtMachine(machine="far"))
    shut = replace(closed, receiver_window_bytes=0)
    half = replace(FAR, run_ratio=0.4, wait_ratio=0.15)
    assert judge(seen(flow(tcp=shut, receiver=half, received_bps=1e8))).limit is Limit.CPU


def test_flow_at_its_intended_rate_leaves_no_doubt_on_the_limit_of_another_flow() -> None:
    """Check an unshaped reverse path at its rate."""
    shaped = flow(shapers=(LAB_SHAPER,), received_bps=96e6, intended_bps=200e6)
    back = flow(name="far->near", source="far", target="near", intended_bps=200e6, received_bps=200e6)
    verdict = judge(seen(shaped, back))
    assert (verdict.limit, verdict.doubt) == (Limit.SHAPER, None)
    assert judge(seen(back, replace(back, name="near->far"))).doubt is None


MS, S = 1_000_000, 1_000_000_000
SHAPER = Shaper("far.eth0", "tbf", 900, 900, 60_000, 0, 500, (64_000,))
LOST = Drop(OnWire(link="w"), ByChance(code="by-loss"), 41)
BUCKET = LevelChange(300 * MS, 4.5e9, 9.9e6, 278e6, 9.9e6, 300 * MS)
LINE = LineSeen(place="a.eth0", link="w", passed_bps=950e6, rate_bps=1e9)


@pytest.mark.parametrize(
    ("one", "limit", "place", "words"),
    [
        (flow(shapers=(ShaperSeen(SHAPER, 63e3, back=True),)), Limit.SHAPER, "far.eth0", "acknowledgements"),
        (flow(shapers=(ShaperSeen(replace(SHAPER, rates_bps=(10_000_000,)), 9.9e6, BUCKET),)), Limit.SHAPER, "far.eth0",
         "a burst passed at 4.5 Gbit/s for 300 ms"),
        (flow(tcp=LOSSY, retransmits=41, drops=(LOST,), wire_frames={"w": 4100}), Limit.RULE, "emulated link w",
         "lost 41 of 4100 frames"),
        (datagrams(lost_datagrams=39, datagrams=500, drops=(LOST,), fragments=14, reassembly_failed=39,
                   wire_frames={"w": 6862}), Limit.RULE, "emulated link w", "14 fragments"),
        (flow(tcp=LOSSY, retransmits=8, drops=(Drop(AtPort(port="s1.p0"), LongerThanMtu(
            out="s1.p1", mtu_bytes=1500, sent_mtu_bytes=9000), 8),)), Limit.RULE, "s1.p0", "MTU of s1.p1"),
        (flow(lines=(LINE,)), Limit.LINE, "a.eth0", "1 Gbit/s"),
        (flow(lines=(replace(LINE, rate_bps=None, passed_bytes=95, capacity_bytes=100),)), Limit.LINE, "a.eth0",
         "95 bytes of the 100 bytes"),
        (flow(lines=(replace(LINE, passed_bps=850e6),), tcp=replace(TCP, rtt_ns=411 * MS, least_rtt_ns=229 * MS)),
         Limit.LINE, "a.eth0", "a minimum of 229 ms"),
        (datagrams(lost_datagrams=3500, drops=(LOST,), lines=(replace(LINE, passed_bps=2e8, arrived_frames=6900,
                   lost_frames=3500),)), Limit.LINE, "a.eth0", "lost 3500 of 6900 frames"),
        (flow(lines=(replace(LINE, passed_bps=800e6, marked_frames=400, arrived_frames=9000),)), Limit.LINE, "a.eth0",
         "marked 400 of 9000 frames"),
        (flow(lines=(replace(LINE, passed_bps=690e6, stall_ns=300 * MS, stall_every_ns=S),)), Limit.LINE, "a.eth0",
         "stalls for 300 ms every 1 s"),
        (flow(pacers=(Passed("a.eth1", 48.9e6, 50e6),)), Limit.SHAPER, "a.eth1", "rate of 50 Mbit/s"),
        (flow(tcp=LOSSY, retransmits=41, reordering=("w",)), Limit.PATH, "emulated link w", "w reorders frames"),
    ],
    ids=["acknowledgements", "used up burst", "random loss", "fragments", "MTU", "full line", "rate trace",
         "standing queue",
         "queue overflow", "ECN marks", "stalls", "pacer", "reordered frames"],
)  # fmt: skip
def test_path_limit_is_named_with_place_and_figure(
    one: FlowSeen, limit: Limit, place: str, words: str
) -> None:
    """Require certainty."""
    verdict = judge(seen(one))
    assert (verdict.limit, EN.said.say_any(verdict.place), verdict.doubt) == (limit, place, None)
    assert words in EN.said.say_all(verdict.seen)


def test_half_used_line_is_not_the_limit() -> None:
    """Exclude a line without a queue, too."""
    idle = replace(LINE, passed_bps=500e6)
    calm = replace(TCP, rtt_ns=229 * MS, least_rtt_ns=229 * MS)
    assert judge(seen(flow(lines=(idle,)))).limit is not Limit.LINE
    assert judge(seen(flow(lines=(replace(LINE, passed_bps=850e6),), tcp=calm))).limit is not Limit.LINE


def test_rate_trace_capacity_repeats_its_steps() -> None:
    """Check 1 875 000 bytes per round: 10 Mbit/s, then 5, for 1 s each."""
    line = Impairments.model_validate({"rate_trace": [["0s", "10Mbit"], ["1s", "5Mbit"], ["2s", "5Mbit"]]})
    assert capacity_bytes(line, 0, S) == 1_250_000
    assert capacity_bytes(line, S // 2, 3 * S // 2) == 625_000 + 312_500
    steps = line.rate_trace or ()
    whole = sum(length for length, _ in steps)
    assert capacity_bytes(line, 0, 3 * whole) == 3 * capacity_bytes(line, 0, whole)


def test_delivery_trace_capacity_is_one_frame_per_delivery_time() -> None:
    """Check five moments in 5 ms, round after round."""
    line = Impairments.model_validate({"delivery_trace": [1, 2, 3, 4, 5]})
    assert capacity_bytes(line, 0, 5 * MS) == 5 * DELIVERY_BYTES
    assert capacity_bytes(line, 5 * MS, 1000 * MS) == 995 * DELIVERY_BYTES


def test_reordering_link_that_also_lost_frames_gives_a_doubtful_path_limit() -> None:
    """Doubt whether a segment was lost or overtaken."""
    small = replace(LOST, frames=1)
    verdict = judge(seen(flow(tcp=LOSSY, retransmits=900, reordering=("w",), drops=(small,))))
    assert (verdict.limit, verdict.doubt is not None) == (Limit.PATH, True)


WAITS = replace(NEAR, run_ratio=0.6, wait_ratio=0.3)


@pytest.mark.parametrize(
    ("one", "code", "words"),
    [
        (seen(flow(sender=replace(NEAR, stopped_ns=10**9))), "program-stopped", "near was stopped for 1 s"),
        (seen(flow(receiver=replace(FAR, stopped_ns=2 * 10**8))), "program-stopped", "far"),
        (seen(flow(sender=WAITS), strangers={"": 1.9}), "cpu-taken", "1.9 CPUs"),
        (seen(flow(sender=replace(WAITS, kept_on=1), receiver=replace(FAR, kept_on=1))),
         "programs-share-cpu", "CPU 1"),
        (seen(flow(carriers=(Carrier("a.eth1", 2),))), "link-went-down", "a.eth1 (2 times)"),
        (seen(unheld=(Passed("a.eth1", 445e6, 200e6),)), "shape-not-held", "445 Mbit/s"),
        (seen(foreign=(Passed("a.eth1", 150e6, 100e6),)), "foreign-traffic", "50 Mbit/s"),
        (seen(cpus=(CpuUse(1, 0.9, 0.1, 0.2),)), "cpu-withheld", "CPU steal on CPU 1 of this host was 20 %"),
        (seen(gaps={"dut": 10**9}), "kernel-stood-still", "dut"),
        (seen(flow(stood_ns=10**9)), "stream-stood-still", "no counter shows why"),
    ],
)  # fmt: skip
def test_each_disturbance_gives_one_warning_with_place_and_figure(
    one: StreamSeen, code: str, words: str
) -> None:
    """Check one event at a time."""
    (warning,) = disturbances(one)
    assert warning.code == code
    assert words in EN.said.say(warning)


@pytest.mark.parametrize(
    "one",
    [
        seen(),
        seen(flow(sender=replace(NEAR, run_ratio=0.99))),
        seen(flow(sender=WAITS), strangers={"": 0.1}),
        seen(strangers={"": 1.9}),
        seen(flow(sender=replace(NEAR, wait_ratio=0.04), receiver=replace(FAR, cpus=NEAR.cpus))),
        seen(flow(stood_ns=200_000_000)),
        seen(gaps={"": 250_000_000}),
        seen(cpus=(CpuUse(1, 0.9, 0.1, 0.01),)),
    ],
    ids=["idle host", "busy sender", "waiting for own threads", "idle foreign programs",
         "single wait on one CPU", "retransmission timeout", "late reading", "slight steal"],
)  # fmt: skip
def test_undisturbed_stream_gives_no_warning(one: StreamSeen) -> None:
    """Exclude limits, and normal events on idle machines."""
    assert disturbances(one) == ()


def test_guest_that_waited_while_foreign_programs_used_cpus_gives_a_warning() -> None:
    """Warn only if foreign programs used the parent's CPUs."""
    vcpu = Thread("CPU 0/TCG", GUEST, "near", None, 0.6, 0.35)
    marks = disturbances(seen(threads=(vcpu,), strangers={"": 1.9}))
    assert [one.code for one in marks] == ["cpus-taken"]
    assert disturbances(seen(threads=(vcpu,), strangers={"": 0.1})) == ()
