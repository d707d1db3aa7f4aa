"""A plan of two steps, their trials and their series, as tests of run folders store them."""

from datetime import UTC, datetime

from iolab.messages.caveats import TooCoarse
from iolab.messages.failures import ProgramFailed
from iolab.messages.places import OnPath
from iolab.messages.streams import CongestionWindow
from iolab.messages.warnings import SenderShort
from iolab.plan.types import Plan, PlannedFactor, Step
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.results.series import series
from iolab.results.trial import Status, TrialResult
from iolab.results.verdict import Limit, Verdict
from iolab.store.records import TrialRecord

WALL = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VERDICT = Verdict(
    Limit.PATH,
    (CongestionWindow(window_bytes=9, congestion="bbr", rtt_ns=7, most_bps=1e6),),
    OnPath(source="a", target="b"),
    TooCoarse(code="window-of-second"),
)
STEPS = tuple(Step(key=f"k{number}", measure="tcp", block=1, plot=0, levels=(number,)) for number in range(2))
PLAN = Plan(
    title="A plan",
    factors=(PlannedFactor("links.lan.mtu", ("1500", "9000")),),
    measures=("tcp",),
    baseline={"links.lan.mtu": "1500"},
    grouping=(),
    seed=1,
    blocks=1,
    steps=STEPS,
    unsupported=(),
    estimate_ns=2_000_000_000,
    digest="d" * 64,
)


RAINED = ProgramFailed(program="iperf3", role="client", status=1, said="it rained")


def record(key: str, *, status: Status = Status.OK) -> TrialRecord:
    """Return a trial record."""
    result = TrialResult(
        status=status,
        reason=None
        if status is Status.OK
        else ProgramFailed(program="iperf3", role="client", status=1, said="it rained"),
        metrics=Metrics([Metric("received_bps", "bit/s", 9.41e8)] if status is Status.OK else ()),
        warnings=(SenderShort(machine="near", sent_bps=9e8, intended_bps=1e9),),
        verdict=VERDICT,
        begin_ns=10,
        end_ns=30,
        measured_ns=15,
    )
    return TrialRecord(
        key=key, measure="tcp", block=1, cell={"links.lan.mtu": "1500"}, wall=WALL.isoformat(), result=result
    )


RATES = series("received_bps", "bit/s", [(100, 1e9), (200, 2e9)], Dimensions(flow="near->far"), "iperf3")
BUSY = series("cpu_busy_ratio", "ratio", [(100, 0.5)], Dimensions(machine="dut", cpu=1), "cpu")
