"""The line that tells how a trial ended while its run goes on."""

from iolab.cli.progress import describe_record
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.results.trial import Status, TrialResult
from iolab.store.records import TrialRecord


def test_a_disk_program_is_told_by_what_stands_for_it_in_the_report() -> None:
    """hdparm's first timing is of memory."""
    rates = {"cached": 8e9, "buffered": 2e8}
    metrics = Metrics(
        Metric("disk_bytes_per_s", "byte/s", rate, Dimensions(part=part)) for part, rate in rates.items()
    )
    record = TrialRecord(
        key="k",
        measure="old",
        kind="disk",
        block=1,
        cell={"path": "Local"},
        wall="2026-01-01T00:00:00+00:00",
        result=TrialResult(status=Status.OK, metrics=metrics, begin_ns=0, end_ns=2, measured_ns=1),
    )
    assert str(describe_record(record)) == "block 1 old path=Local: buffered 191 MiB/s"


def test_a_rate_that_the_instrument_limited_is_told_as_a_lower_bound() -> None:
    """The generator could send no more."""
    metrics = Metrics([Metric("forwarded_fps", "frame/s", 2e5, limited_by="generator")])
    record = TrialRecord(
        key="k", measure="ndr", kind="forwarding", block=1, cell={}, wall="2026-01-01T00:00:00+00:00",
        result=TrialResult(status=Status.OK, metrics=metrics, begin_ns=0, end_ns=2, measured_ns=1),
    )  # fmt: skip
    assert str(describe_record(record)) == "block 1 ndr: ≥\u00a0200 kframe/s forwarded"
