"""Limits that show at a place: shapers by their own time, lines, emulated paths, MTUs, fragments."""

from dataclasses import replace

import pytest
from tests.unit.trial.streams.flows import TCP, datagrams, flow, seen

from iolab.experiment.model.impairments import DELIVERY_BYTES, Impairments
from iolab.messages.drop_reasons import ByChance, LongerThanMtu
from iolab.messages.places import AtPort, OnWire
from iolab.report.locale import EN
from iolab.results.balance import Drop
from iolab.results.load import Shaper
from iolab.results.verdict import Limit
from iolab.trial.counters.passing import LevelChange
from iolab.trial.streams.evidence import FlowSeen, LineSeen, Passed, ShaperSeen
from iolab.trial.streams.lines import capacity_bytes
from iolab.trial.streams.verdict import judge

MS, S = 1_000_000, 1_000_000_000
LOSSY = replace(TCP, resent_bytes=10**7)
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
        (flow(tcp=LOSSY, retransmits=41, drops=(LOST,), wire_frames={"w": 4100}), Limit.RULE, "wire w",
         "lost 41 of 4100 frames"),
        (datagrams(lost_datagrams=39, datagrams=500, drops=(LOST,), fragments=14, reassembly_failed=39,
                   wire_frames={"w": 6862}), Limit.RULE, "wire w", "14 fragments"),
        (flow(tcp=LOSSY, retransmits=8, drops=(Drop(AtPort(port="s1.p0"), LongerThanMtu(
            out="s1.p1", mtu_bytes=1500, sent_mtu_bytes=9000), 8),)), Limit.RULE, "s1.p0", "MTU of s1.p1"),
        (flow(lines=(LINE,)), Limit.LINE, "a.eth0", "1 Gbit/s"),
        (flow(lines=(replace(LINE, rate_bps=None, passed_bytes=95, capacity_bytes=100),)), Limit.LINE, "a.eth0",
         "95 bytes of the 100 bytes"),
        (flow(lines=(replace(LINE, passed_bps=850e6),), tcp=replace(TCP, rtt_ns=411 * MS, least_rtt_ns=229 * MS)),
         Limit.LINE, "a.eth0", "its minimum 229 ms"),
        (datagrams(lost_datagrams=3500, drops=(LOST,), lines=(replace(LINE, passed_bps=2e8, arrived_frames=6900,
                   lost_frames=3500),)), Limit.LINE, "a.eth0", "lost 3500 of 6900 frames"),
        (flow(lines=(replace(LINE, passed_bps=800e6, marked_frames=400, arrived_frames=9000),)), Limit.LINE, "a.eth0",
         "marked 400 of 9000 frames"),
        (flow(lines=(replace(LINE, passed_bps=690e6, stall_ns=300 * MS, stall_every_ns=S),)), Limit.LINE, "a.eth0",
         "stalls for 300 ms every 1 s"),
        (flow(pacers=(Passed("a.eth1", 48.9e6, 50e6),)), Limit.SHAPER, "a.eth1", "its rate is 50 Mbit/s"),
        (flow(tcp=LOSSY, retransmits=41, reordering=("w",)), Limit.PATH, "wire w", "overtake others on the wire w"),
    ],
    ids=["acknowledgements", "a spent bucket", "loss by chance", "fragments", "MTU", "full", "a trace",
         "a standing queue",
         "a queue that overflows", "marks", "stalls", "a pacer", "overtaken frames"],
)  # fmt: skip
def test_a_place_is_named_with_what_shows_it(one: FlowSeen, limit: Limit, place: str, words: str) -> None:
    """Certain, at its place, with the figure."""
    verdict = judge(seen(one))
    assert (verdict.limit, EN.said.say_any(verdict.place), verdict.doubt) == (limit, place, None)
    assert words in EN.said.say_all(verdict.seen)


def test_a_line_that_is_half_used_is_not_the_limit() -> None:
    """Nor is one whose round-trip time is its minimum."""
    idle = replace(LINE, passed_bps=500e6)
    calm = replace(TCP, rtt_ns=229 * MS, least_rtt_ns=229 * MS)
    assert judge(seen(flow(lines=(idle,)))).limit is not Limit.LINE
    assert judge(seen(flow(lines=(replace(LINE, passed_bps=850e6),), tcp=calm))).limit is not Limit.LINE


def test_a_trace_offers_what_its_steps_carry_round_after_round() -> None:
    """10 Mbit/s for 1 s, then 5 Mbit/s for 1 s: 1 875 000 bytes a round."""
    line = Impairments.model_validate({"rate_trace": [["0s", "10Mbit"], ["1s", "5Mbit"], ["2s", "5Mbit"]]})
    assert capacity_bytes(line, 0, S) == 1_250_000
    assert capacity_bytes(line, S // 2, 3 * S // 2) == 625_000 + 312_500
    steps = line.rate_trace or ()
    whole = sum(length for length, _ in steps)
    assert capacity_bytes(line, 0, 3 * whole) == 3 * capacity_bytes(line, 0, whole)


def test_a_delivery_trace_offers_a_frame_at_each_moment() -> None:
    """Five moments in 5 ms, round after round."""
    line = Impairments.model_validate({"delivery_trace": [1, 2, 3, 4, 5]})
    assert capacity_bytes(line, 0, 5 * MS) == 5 * DELIVERY_BYTES
    assert capacity_bytes(line, 5 * MS, 1000 * MS) == 995 * DELIVERY_BYTES


def test_a_wire_that_lost_frames_too_is_not_held_to_have_reordered_them_only() -> None:
    """Whether a segment was lost or overtaken, nobody knows then."""
    small = replace(LOST, frames=1)
    verdict = judge(seen(flow(tcp=LOSSY, retransmits=900, reordering=("w",), drops=(small,))))
    assert (verdict.limit, verdict.doubt is not None) == (Limit.PATH, True)
