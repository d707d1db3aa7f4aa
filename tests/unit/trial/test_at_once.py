"""Concurrent measures: each has a separate outcome, and none counts if one failed."""

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


def test_measures_in_a_together_measure_run_concurrently() -> None:
    """Use a barrier, at which sequential measures would never end."""
    meeting = threading.Barrier(2, timeout=60)

    def meet(site: Site, measure: Measure) -> Measured:
        meeting.wait()
        assert site.part == measure.kind
        assert not site.alone
        return measured(1)

    found = measure_at_once(bare_site(), parts(load=0, probe=0), meet)
    assert [type(one) for one in found.values()] == [Measured, Measured]


def test_series_of_a_later_measure_are_shifted_to_the_time_of_the_first_measure() -> None:
    """Add the offset of its start."""
    found = measure_at_once(bare_site(), parts(load=1_000_000, probe=0), lambda *_: measured(1))
    times = {name: int(one.series[0].at_ns[0]) for name, one in found.items() if isinstance(one, Measured)}
    assert times == {"load": 1_001_000, "probe": 1000}


def test_failure_of_one_concurrent_measure_fails_the_others() -> None:
    """Fail a probe without its load."""

    def fail(_: Site, measure: Measure) -> Measured:
        if measure.kind == "load":
            raise TrialFailed("no route to host")
        return measured(1)

    found = measure_at_once(bare_site(), parts(probe=0, load=0), fail)
    assert found == {"probe": OneAtOnceFailed(measure="load"), "load": OtherFailure(said="no route to host")}


def test_lost_agent_ends_concurrent_measures_with_agent_lost() -> None:
    """Leave the decision to the run."""

    def lose(_: Site, measure: Measure) -> Measured:
        raise AgentLost("far", measure.kind)

    with pytest.raises(AgentLost):
        measure_at_once(bare_site(), parts(probe=0, load=0), lose)


@pytest.mark.parametrize("order", [{"first": 0, "second": 0}, {"second": 0, "first": 0}])
def test_unusable_lab_of_one_concurrent_measure_determines_the_reason(
    order: dict[str, int],
) -> None:
    """Report the hanging guest instead of the lost agent of the other disk."""
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
