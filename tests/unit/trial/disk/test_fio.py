"""fio: its jobs, its report and logs, and the steady state of its rounds."""

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


def test_every_combination_of_block_depth_and_access_is_a_separate_fio_run() -> None:
    """Use three blocks, depths and accesses by default, direct I/O, and incompressible data."""
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


def test_fio_repeats_no_random_offset_on_a_user_space_export() -> None:
    """Prevent cached answers, which are faster than the disk."""
    for disk, line in ((LOCAL, "norandommap=1"), (DOOR, "norandommap=0")):
        jobs = jobs_of(measure(), disk, "/dev/x", "/logs")
        assert all(line in job.text.splitlines() for job in jobs)


def test_offered_rate_is_divided_between_reads_and_writes() -> None:
    """Send at random times, with room for unfinished requests."""
    (job,) = jobs_of(
        measure(fio={"offered": 1000, "blocks": ["4K"], "access": ["mixed"]}), LOCAL, "/mnt/file", "/logs"
    )
    assert {"rate_iops=700,300", "rate_process=poisson", "iodepth=256"} <= set(job.text.splitlines())


def test_phase_on_a_throttled_disk_is_measured_after_the_burst_credit() -> None:
    """Allow for QEMU's burst of a tenth of a second; bound the uncounted bytes in the ledger."""
    throttled = Disk.model_validate({"volume": "v", "throttle": {"bytes": "40M"}})
    asked = measure(fio={"blocks": ["64K"], "depths": [8], "access": ["read", "write"]})
    for disk, ramps in ((throttled, True), (LOCAL, False)):
        jobs = jobs_of(asked, disk, "/dev/x", "/logs")
        assert [f"ramp_time={RAMP_MS}ms" in job.text.splitlines() for job in jobs] == [ramps] * 2
    assert (uncounted_bytes(asked, LOCAL), uncounted_bytes(asked, throttled)) == (0, 2 * (40 << 20) * 6 // 10)
    slow = Disk.model_validate({"volume": "v", "throttle": {"operations": 500}})
    assert uncounted_bytes(asked, slow) == 2 * 500 * 65536 * 6 // 10


def test_hdparm_jobs_only_read() -> None:
    """Use the page cache, like hdparm."""
    cached, buffered = jobs_of(measure(profile="hdparm"), LOCAL, "/dev/x", "/logs")
    assert (cached.read_only, buffered.read_only) == (True, True)
    assert {"direct=0", "invalidate=1"} <= set(buffered.text.splitlines())
    assert "pre_read=1" in cached.text.splitlines()


def test_fio_run_that_was_ended_early_is_refused() -> None:
    """Refuse one second of two; accept a whole second of one."""
    with pytest.raises(ValueError, match="ended after 1000 of 2000 ms"):
        accesses_of(Job("read", 4096, 1, "", lasts_ms=2000), parse_fio(report(10, 0)))
    assert accesses_of(Job("read", 4096, 1, "", lasts_ms=1000), parse_fio(report(10, 0)))


def test_fio_report_gives_rate_and_latency_per_direction() -> None:
    """Check 1000 reads, half of which took 10 us; p99.9 needs more of them."""
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
def test_random_access_leads_with_operations_and_sequential_access_with_bytes(job: Job, leads: str) -> None:
    """Put the leading metric of a trial first."""
    (reads,) = accesses_of(job, parse_fio(report(1000, 0, jobname="1")))
    assert next(iter(metrics_of([figure_of(merged([reads, reads]))]))).name == leads


def test_rounds_are_merged_by_adding_counts_and_not_by_averaging_percentiles() -> None:
    """Merge 900 fast and 100 slow ones: p90 is fast."""
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
        (report(10, 0, read=direction(10, {}, runtime_ms=0)), "not a measurement"),
        (report(10, 0, usr_cpu=1e999), "usr_cpu"),
    ],
)
def test_fio_report_without_a_measurement_is_refused(text: str, said: str) -> None:
    """Refuse it, although fio reports success for some."""
    with pytest.raises(ValueError, match=said):
        accesses_of(MIXED, parse_fio(text))


def test_fio_logs_become_series_per_direction() -> None:
    """Convert fio's KiB, and accept a duplicate last point."""
    found = {(one.name, one.dimensions.part): one for one in log_series(MIXED, LOGS, 5_000_000_000)}
    reads = found["disk_bytes_per_s", "mixed-read"]
    assert list(reads.at_ns) == [5_100_000_000, 5_200_000_000]
    assert list(reads.values) == [2000 * 1024, 4000 * 1024]
    assert list(found["disk_bytes_per_s", "mixed-write"].values) == [1000 * 1024]
    assert list(found["disk_operations_per_s", "mixed-read"].values) == [500]
    with pytest.raises(ValueError, match="nonsense"):
        log_series(MIXED, "==> /x/log_bw.1.log <==\nnonsense\n", 0)


def test_five_equal_rounds_reach_the_steady_state() -> None:
    """Ignore earlier rounds."""
    seen = steadiness([1000, 500, 100, 101, 99, 100, 102])
    assert seen is not None
    assert seen.reached


@pytest.mark.parametrize(
    "rounds",
    [[100, 100, 100, 100, 121], [100, 104, 108, 112, 116]],
    ids=["one round 20 % higher", "drift of more than 10 %"],
)
def test_differing_or_drifting_rounds_do_not_reach_the_steady_state(rounds: list[float]) -> None:
    """Check a range of a fifth of the mean, and a slope of a tenth."""
    seen = steadiness(rounds)
    assert seen is not None
    assert not seen.reached


def test_fewer_than_five_rounds_give_no_steady_state_result() -> None:
    """Reject five rounds without progress, too."""
    assert steadiness([100, 100, 100, 100]) is None
    assert steadiness([0, 0, 0, 0, 0]) is None
