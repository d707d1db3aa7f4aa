"""The line with the end of a trial during its run."""

from iolab.cli.progress import describe_record
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.results.trial import Status, TrialResult
from iolab.store.records import TrialRecord


def test_progress_line_of_a_disk_program_shows_the_leading_metric_of_the_report() -> None:
    """Skip hdparm's first timing, which is of memory."""
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


def test_progress_line_shows_an_instrument_limited_rate_as_a_lower_bound() -> None:
    """Mark a rate limited by the generator."""
    metrics = Metrics([Metric("forwarded_fps", "frame/s", 2e5, limited_by="generator")])
    record = TrialRecord(
        key="k", measure="ndr", kind="forwarding", block=1, cell={}, wall="2026-01-01T00:00:00+00:00",
        result=TrialResult(status=Status.OK, metrics=metrics, begin_ns=0, end_ns=2, measured_ns=1),
    )  # fmt: skip
    assert str(describe_record(record)) == "block 1 ndr: ≥\u00a0200 kframe/s forwarded"
