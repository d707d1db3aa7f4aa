"""Several measures at once: each has its own outcome, and none counts where one failed."""

import threading

import pytest
from tests.unit.trial.sites import bare_site

from iolab.agent.client import AgentLost
from iolab.experiment.model.measures import Measure
from iolab.messages.disks import (
    DiskServerSilent,
    ProcessGone,
    VolumeServer,
)
from iolab.messages.failures import OneAtOnceFailed, OtherFailure
from iolab.results.metric import Metric, Metrics
from iolab.results.series import series
from iolab.trial.lab_access import Site
from iolab.trial.measurement import LabUnusable, Measured, TrialFailed
from iolab.trial.measuring import TimedPart, measure_at_once


def measured(value: float) -> Measured:
    """Return a measurement of one figure."""
    return Measured(
        metrics=Metrics([Metric("x", "s", value)]), warnings=(), measured_ns=1, commands=(), raw=None,
        series=(series("x", "s", [(1000, value)]),),
    )  # fmt: skip


def parts(**begins_ns: int) -> dict[str, TimedPart]:
    """Return parts that begin at these times."""
    return {name: TimedPart(Measure(kind=name), begin_ns) for name, begin_ns in begins_ns.items()}


def test_all_are_under_way_at_the_same_time() -> None:
    """Each waits for the other: one after the other they would never end."""
    meeting = threading.Barrier(2, timeout=60)

    def meet(site: Site, measure: Measure) -> Measured:
        meeting.wait()
        assert site.part == measure.kind
        assert not site.alone
        return measured(1)

    found = measure_at_once(bare_site(), parts(load=0, probe=0), meet)
    assert [type(one) for one in found.values()] == [Measured, Measured]


def test_series_of_one_that_begins_later_stand_later() -> None:
    """On the time of the first."""
    found = measure_at_once(bare_site(), parts(load=1_000_000, probe=0), lambda *_: measured(1))
    times = {name: int(one.series[0].at_ns[0]) for name, one in found.items() if isinstance(one, Measured)}
    assert times == {"load": 1_001_000, "probe": 1000}


def test_where_one_fails_the_others_fail_with_it() -> None:
    """A probe without its load is another measurement."""

    def fail(_: Site, measure: Measure) -> Measured:
        if measure.kind == "load":
            raise TrialFailed("no route to host")
        return measured(1)

    found = measure_at_once(bare_site(), parts(probe=0, load=0), fail)
    assert found == {"probe": OneAtOnceFailed(measure="load"), "load": OtherFailure(said="no route to host")}


def test_a_lost_agent_is_no_failure_of_a_measure() -> None:
    """The run decides what that means."""

    def lose(_: Site, measure: Measure) -> Measured:
        raise AgentLost("far", measure.kind)

    with pytest.raises(AgentLost):
        measure_at_once(bare_site(), parts(probe=0, load=0), lose)


@pytest.mark.parametrize("order", [{"first": 0, "second": 0}, {"second": 0, "first": 0}])
def test_where_the_lab_of_one_is_unusable_its_reason_counts_and_its_hung_guest_is_known(
    order: dict[str, int],
) -> None:
    """The other disk hangs off the guest that is powered off: that its agent is lost is no reason of its own."""
    silent = DiskServerSilent(
        program="fio",
        machine="dut",
        server=VolumeServer(code="nbd-server", volume="v", machine="far"),
        condition=ProcessGone(),
        still_ns=20_000_000_000,
        in_flight=8,
    )
    ended = threading.Event()

    def measure_disk(_: Site, measure: Measure) -> Measured:
        if measure.kind == "first":
            ended.set()
            raise LabUnusable(silent, frozenset({"dut"}))
        ended.wait(60)
        raise AgentLost("dut", "powered off")

    with pytest.raises(LabUnusable) as raised:
        measure_at_once(bare_site(), parts(**order), measure_disk)
    assert raised.value.failure == silent
    assert raised.value.hung == {"dut"}
