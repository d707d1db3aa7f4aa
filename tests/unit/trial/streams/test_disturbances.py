"""What disturbs a stream is a warning of its own; what limits it is none."""

from dataclasses import replace

import pytest
from tests.unit.trial.streams.flows import FAR, NEAR, flow, seen

from iolab.report.locale import EN
from iolab.results.verdict import GUEST, CpuUse, Thread
from iolab.trial.streams.disturbances import disturbances
from iolab.trial.streams.evidence import Carrier, Passed, StreamSeen

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
        (seen(cpus=(CpuUse(1, 0.9, 0.1, 0.2),)), "cpu-withheld", "20 % of the time of CPU 1"),
        (seen(gaps={"dut": 10**9}), "kernel-stood-still", "dut"),
        (seen(flow(stood_ns=10**9)), "stream-stood-still", "no counter says why"),
    ],
)  # fmt: skip
def test_a_disturbance_is_a_warning_that_names_it(one: StreamSeen, code: str, words: str) -> None:
    """One thing happened; one warning tells it, with place and figure."""
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
    ids=["calm", "a busy sender", "waiting for its own", "idle strangers", "once on one CPU", "a timeout",
         "a late reading", "a little steal"],
)  # fmt: skip
def test_an_undisturbed_stream_has_no_mark(one: StreamSeen) -> None:
    """What limits it, or happens on calm machines too, marks nothing."""
    assert disturbances(one) == ()


def test_a_guest_that_waited_while_others_had_cpus_is_marked() -> None:
    """Its own programs know nothing of it; where nobody else worked its parent is just small."""
    vcpu = Thread("CPU 0/TCG", GUEST, "near", None, 0.6, 0.35)
    marks = disturbances(seen(threads=(vcpu,), strangers={"": 1.9}))
    assert [one.code for one in marks] == ["cpus-taken"]
    assert disturbances(seen(threads=(vcpu,), strangers={"": 0.1})) == ()
