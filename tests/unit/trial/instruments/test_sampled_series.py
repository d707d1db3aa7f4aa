"""Readings of samplers over time, as series."""

from typing import Any

import numpy as np
from tests.unit.trial.zeros import zeros

from iolab.agent.answers import Observation, Reading
from iolab.agent.messages import InterfaceCounters, QdiscCounters, ThreadTimes
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.quantities import PortRef
from iolab.lab.topology import make_topology
from iolab.results.metric import Dimensions
from iolab.results.series import Series
from iolab.trial.instruments.samplers import sampled

LAB = Lab(
    {"near": Netns(kind="netns"), "far": Netns(kind="netns")},
    {"lan": Link(ends=(PortRef("near.eth0"), PortRef("far.eth0")))},
    {},
)
TENTH_NS = 100_000_000


def reading(number: int, sent_bytes: int, run_ns: int, busy_ns: int, waiting: int) -> Reading:
    """Return one reading of a CPU, a thread and near's port."""
    at_ns = 7_000 + number * TENTH_NS
    times = dict.fromkeys(("nice_ns", "irq_ns", "softirq_ns", "steal_ns", "iowait_ns", "system_ns"), 0)
    times |= {"guest_ns": 0, "guest_nice_ns": 0}
    cpu = {"cpu": 1, "user_ns": busy_ns, "idle_ns": number * TENTH_NS - busy_ns, **times}
    thread = zeros(ThreadTimes, process="client-5201", pid=9, tid=9, name="iperf3", run_ns=run_ns, last_cpu=1)
    port = InterfaceCounters("eth0", 0, 0, 0, 0, sent_bytes, 0, 0, 0)
    queue = zeros(
        QdiscCounters, interface="eth0", handle="1:", parent="root", kind="tbf", backlog_bytes=waiting
    )

    def seen(sampler: str, **rows: Any) -> Observation:
        netns = "iolab-near" if sampler in ("interfaces", "qdiscs") else None
        return Observation(sampler=sampler, netns=netns, begin_ns=at_ns, end_ns=at_ns, **rows)

    return Reading(
        (
            seen("cpu", cpus=(cpu,)),
            seen("threads", threads=(thread,)),
            seen("interfaces", interfaces=(port,)),
            seen("qdiscs", qdiscs=(queue,)),
        )
    )


def found(*readings: Reading) -> dict[tuple[str, Dimensions], Series]:
    """Return the series of the local host's readings."""
    every = sampled({"": readings}, make_topology(LAB))
    return {(one.name, one.dimensions): one for one in every}


def test_sampled_counters_become_rates_and_backlogs_stay_values() -> None:
    """Begin at the first reading; omit series of zeros."""
    every = found(
        reading(0, 0, 0, 0, 0),
        reading(1, 1_250_000, 50_000_000, 100_000_000, 3000),
        reading(2, 1_250_000, 150_000_000, 100_000_000, 0),
    )
    rate = every["tx_bps", Dimensions(port="near.eth0")]
    assert (rate.at_ns.tolist(), rate.values.tolist()) == ([TENTH_NS, 2 * TENTH_NS], [1e8, 0.0])
    thread = every["thread_cpu_ratio", Dimensions(thread="client-5201 iperf3")]
    assert np.allclose(thread.values, [0.5, 1.0])
    assert np.allclose(every["cpu_ratio", Dimensions(cpu=1, part="user")].values, [1.0, 0.0])
    assert every["qdisc_backlog_bytes", Dimensions(port="near.eth0")].values.tolist() == [0.0, 3000.0, 0.0]
    assert len(every) == 4


def test_reset_counter_has_no_rate_at_that_reading() -> None:
    """Store no negative rate."""
    every = found(reading(0, 5000, 0, 0, 0), reading(1, 100, 0, 0, 0), reading(2, 1350, 0, 0, 0))
    assert every["tx_bps", Dimensions(port="near.eth0")].values.tolist() == [1e5]
