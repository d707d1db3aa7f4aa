"""fio: what it is asked, what its report and logs say, and whether its rounds reached a steady state."""

import json

import pytest
from tests.unit.trial.disk.fio_outputs import direction, measure

from iolab.experiment.model.machines import Disk
from iolab.results.metric import Metric
from iolab.trial.disk.figures import metrics_of
from iolab.trial.disk.fio_jobs import RAMP_MS, Job, JobSection, jobs_of, uncounted_bytes
from iolab.trial.disk.fio_report import accesses_of, figure_of, log_series, merged, parse_fio, steadiness

MIXED = Job("mixed", 4096, 32, "")
LOGS = """==> /run/iolab/folders/fio/log_bw.1.log <==
100, 2000, 0, 0, 0
100, 1000, 1, 0, 0
200, 4000, 0, 0, 0
200, 4000, 0, 0, 0

==> /run/iolab/folders/fio/log_iops.1.log <==
100, 500, 0, 0, 0
"""
LOCAL, DOOR = Disk(volume="v", via="local"), Disk(volume="v", via="user")


def report(reads: int, writes: int, **more: object) -> str:
    """Return fio's output for one job, after one of its notes."""
    bins = {"10000": reads // 2, "50000": reads - reads // 2}
    job = {
        "jobname": "mine", "error": 0, "job_runtime": 1000, "usr_cpu": 10.0, "sys_cpu": 30.0,
        "read": direction(reads, bins), "write": direction(writes, {}), **more,
    }  # fmt: skip
    return "note: both iodepth >= 1 and synchronous\n" + json.dumps({"jobs": [job]}, indent=1)


def test_every_combination_is_a_run_of_its_own() -> None:
    """Three blocks, depths and accesses by default; past the page cache, with data that cannot be shortened."""
    jobs = jobs_of(measure(), LOCAL, "/mnt/file", "/logs")
    assert len(jobs) == 27
    first = jobs[0].text.splitlines()
    assert {
        "rw=randread",
        "bs=4096",
        "iodepth=1",
        "direct=1",
        "refill_buffers=1",
        "filename=/mnt/file",
    } <= set(first)
    assert "allow_file_create=0" in first
    assert all(job.random for job in jobs)


def test_behind_a_door_no_random_place_comes_twice() -> None:
    """What a cache kept of the first time would answer the second, faster than the disk can."""
    for disk, line in ((LOCAL, "norandommap=1"), (DOOR, "norandommap=0")):
        jobs = jobs_of(measure(), disk, "/dev/x", "/logs")
        assert all(line in job.text.splitlines() for job in jobs)


def test_an_offered_rate_is_shared_by_reads_and_writes() -> None:
    """At random times, with room for those that have not ended."""
    (job,) = jobs_of(
        measure(fio={"offered": 1000, "blocks": ["4K"], "access": ["mixed"]}), LOCAL, "/mnt/file", "/logs"
    )
    assert {"rate_iops=700,300", "rate_process=poisson", "iodepth=256"} <= set(job.text.splitlines())


def test_on_a_throttled_disk_a_phase_counts_after_its_credit_is_spent() -> None:
    """QEMU lets a tenth of a second's worth through at once; how much is not counted has a bound in the ledger."""
    throttled = Disk.model_validate({"volume": "v", "throttle": {"bytes": "40M"}})
    asked = measure(fio={"blocks": ["64K"], "depths": [8], "access": ["read", "write"]})
    for disk, ramps in ((throttled, True), (LOCAL, False)):
        jobs = jobs_of(asked, disk, "/dev/x", "/logs")
        assert [f"ramp_time={RAMP_MS}ms" in job.text.splitlines() for job in jobs] == [ramps] * 2
    assert (uncounted_bytes(asked, LOCAL), uncounted_bytes(asked, throttled)) == (0, 2 * (40 << 20) * 6 // 10)
    slow = Disk.model_validate({"volume": "v", "throttle": {"operations": 500}})
    assert uncounted_bytes(asked, slow) == 2 * 500 * 65536 * 6 // 10


def test_hdparms_timings_only_read() -> None:
    """Through the page cache, as hdparm does."""
    cached, buffered = jobs_of(measure(profile="hdparm"), LOCAL, "/dev/x", "/logs")
    assert (cached.read_only, buffered.read_only) == (True, True)
    assert {"direct=0", "invalidate=1"} <= set(buffered.text.splitlines())
    assert "pre_read=1" in cached.text.splitlines()


def test_a_run_that_was_ended_early_gives_no_figure_although_fio_calls_it_a_success() -> None:
    """Its process was killed after a second of two; a second of one is whole."""
    with pytest.raises(ValueError, match="ended after 1000 of 2000 ms"):
        accesses_of(Job("read", 4096, 1, "", lasts_ms=2000), parse_fio(report(10, 0)))
    assert accesses_of(Job("read", 4096, 1, "", lasts_ms=1000), parse_fio(report(10, 0)))


def test_a_report_gives_each_direction_its_rate_and_latency() -> None:
    """Of 1000 reads half took 10 us; 99.9 % needs more of them."""
    reads, writes = accesses_of(MIXED, parse_fio(report(1000, 500)))
    assert (reads.phase, writes.phase) == ("mixed-read", "mixed-write")
    found = {metric.name: metric for metric in metrics_of([figure_of(reads)])}
    assert found["disk_operations_per_s"].value == 1000
    assert found["disk_latency_p50_ns"].value == 10_000
    assert found["disk_latency_p99_ns"].value == 50_000
    assert "disk_latency_p999_ns" not in found
    assert found["disk_under_way"].value == pytest.approx(0.02)
    assert isinstance(found["disk_cpu_ratio"], Metric)
    assert found["disk_cpu_ratio"].value == pytest.approx(0.4)
    assert found["disk_bytes_per_s"].dimensions.known() == {
        "part": "mixed-read",
        "block_bytes": 4096,
        "depth": 32,
    }


@pytest.mark.parametrize(
    ("job", "leads"),
    [(Job("read", 4096, 1, "", random=True), "disk_operations_per_s"), (Job("read", 4096, 1, ""), "disk_bytes_per_s"),
     (Job("", 0, None, "", sections=(JobSection("job", 1, random=True),)), "disk_operations_per_s")],
)  # fmt: skip
def test_what_stands_for_random_access_is_operations_and_for_sequential_access_bytes(
    job: Job, leads: str
) -> None:
    """The first metric of a trial does."""
    (reads,) = accesses_of(job, parse_fio(report(1000, 0, jobname="1")))
    assert next(iter(metrics_of([figure_of(merged([reads, reads]))]))).name == leads


def test_rounds_are_merged_by_adding_counts_never_by_averaging_percentiles() -> None:
    """900 fast ones and 100 slow ones have a fast 90th percentile."""
    (fast,) = accesses_of(
        Job("write", 4096, 1, ""), parse_fio(report(900, 0, read=direction(900, {"1000": 900})))
    )
    (slow,) = accesses_of(
        Job("write", 4096, 1, ""), parse_fio(report(100, 0, read=direction(100, {"80000": 100})))
    )
    latency = figure_of(merged([fast, slow])).latency
    assert latency is not None
    assert latency.quantiles_ns["p90"] == 1000
    assert latency.quantiles_ns["p99"] == 80_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON"),
        ("{\n}", "jobs"),
        (report(0, 0), "read and wrote nothing"),
        (report(10, 0, error=5), "error 5"),
        (report(10, 0, read=direction(10, {"x": 1})), "histogram"),
        (report(10, 0, read=direction(10, {}, runtime_ms=0)), "no measurement"),
        (report(10, 0, usr_cpu=1e999), "usr_cpu"),
    ],
)
def test_a_report_that_measures_nothing_is_refused(text: str, said: str) -> None:
    """fio calls some of these no error."""
    with pytest.raises(ValueError, match=said):
        accesses_of(MIXED, parse_fio(text))


def test_logs_are_series_by_direction_on_the_time_of_the_trial() -> None:
    """fio counts KiB, and may write its last point twice."""
    found = {(one.name, one.dimensions.part): one for one in log_series(MIXED, LOGS, 5_000_000_000)}
    reads = found["disk_bytes_per_s", "mixed-read"]
    assert list(reads.at_ns) == [5_100_000_000, 5_200_000_000]
    assert list(reads.values) == [2000 * 1024, 4000 * 1024]
    assert list(found["disk_bytes_per_s", "mixed-write"].values) == [1000 * 1024]
    assert list(found["disk_operations_per_s", "mixed-read"].values) == [500]
    with pytest.raises(ValueError, match="nonsense"):
        log_series(MIXED, "==> /x/log_bw.1.log <==\nnonsense\n", 0)


def test_five_rounds_alike_are_steady() -> None:
    """What came before them does not matter."""
    seen = steadiness([1000, 500, 100, 101, 99, 100, 102])
    assert seen is not None
    assert seen.reached


@pytest.mark.parametrize(
    "rounds",
    [[100, 100, 100, 100, 121], [100, 104, 108, 112, 116]],
    ids=["one is a fifth more", "they drift by more than a tenth"],
)
def test_rounds_that_differ_or_drift_are_not_steady(rounds: list[float]) -> None:
    """By a fifth of their mean, or by a tenth of it along a line."""
    seen = steadiness(rounds)
    assert seen is not None
    assert not seen.reached


def test_fewer_than_five_rounds_say_nothing() -> None:
    """Nor do five that did nothing."""
    assert steadiness([100, 100, 100, 100]) is None
    assert steadiness([0, 0, 0, 0, 0]) is None
