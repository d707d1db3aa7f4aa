"""Send small frames through an emulated link at the maximum rate: a section of benches/truth/wire.py."""

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from benches.harness.programs import examples, interface_count, output, within
from benches.harness.table import verdict
from benches.harness.wire_path import APART, DELAY, NEAR, counted, sender, thread_cpu_ns, unaccounted, wired

from iolab.agent.answers import counted_since
from iolab.agent.client import Agent

LEAST_FPS = 0.9e6


def frames(agent: Agent) -> bool:
    """Send frames of 64 B at the maximum rate, through taps and veth pairs, not limited by the generator.

    A thread of the generator sends at most 0.8 Mpps into a veth pair with a program, so the last round floods
    the pair with live frames alone, three times as many; frames that are not read are counted.
    """
    most_fps, missing = 0.0, 0
    for carrier, more, path in (
        ("taps", "mtu: 1500", "af_xdp"),
        ("veth pairs", APART, "af_xdp"),
        ("veth pairs", APART, None),
    ):
        with wired(agent, f"{{{DELAY}}}", more) as (site, measure), ExitStack() as stack:
            if path is None:
                offer: Callable[[], tuple[int, float]] = flood
            else:
                send = stack.enter_context(sender(agent, site, measure.model_copy(update={"path": path})))
                offer = partial(offered, send)
            rates = []
            for _ in range(3):
                before, began_ns = counted(agent)[0], thread_cpu_ns()
                frames_offered, seconds = offer()
                used_ns, way = thread_cpu_ns() - began_ns, counted_since(before, counted(agent)[0])
                rates.append(way.left_frames / seconds)
                unread = frames_offered - way.arrived_frames
                missing += abs(unaccounted(way)) + (abs(unread - way.unread_frames) if path is None else 0)
                cost_ns = used_ns / max(1, way.left_frames)
                late, mpps = way.late_frames / max(1, way.left_frames), frames_offered / seconds / 1e6
                print(
                    f"  {carrier}, {path or 'flood'}: {rates[-1] / 1e6:.3f} of {mpps:.2f} Mpps, "
                    f"{cost_ns:.0f} ns of CPU a frame, {unread} not read, {late:.1%} late"
                )
        most_fps = max(most_fps, statistics.median(rates))
    said = f"{most_fps / 1e6:.2f} Mpps (least {LEAST_FPS / 1e6}), {missing} unaccounted"
    return verdict("64 B frames through 10 ms", said, held=most_fps >= LEAST_FPS and missing == 0)


def offered(send: Callable[[float, float], dict[str, Any]]) -> tuple[int, float]:
    """Send at the generator's maximum rate; return the offered frames, and the time [s]."""
    sent = send(1.6e6, 2)
    return sent["offered_frames"], (sent["end_ns"] - sent["begin_ns"]) / 1e9


def flood() -> tuple[int, float]:
    """Send live frames at the maximum rate; return their number, and the time [s]."""
    program = examples("iolab-traffic") / "paced"
    before = interface_count(NEAR, "eth0", "tx_packets")
    output(*within(NEAR, str(program), "eth0", "bpf_live", "seconds=2", "cpu=0"))
    time.sleep(0.3)  # frames in transit arrive
    return interface_count(NEAR, "eth0", "tx_packets") - before, 2.0
