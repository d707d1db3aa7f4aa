"""fio runs of a user's job file: concurrent sections, and fio's input."""

import json

import pytest
from tests.unit.trial.disk.fio_outputs import direction, measure
from tests.unit.trial.disk.published import published

from iolab.experiment.model.machines import Disk
from iolab.trial.disk.fio_jobs import Job
from iolab.trial.disk.fio_report import accesses_of, figure_of, log_series, parse_fio
from iolab.trial.disk.job_file import read_job
from iolab.trial.disk.ledger import Counted, Row, rows_of, steps
from iolab.trial.disk.section_runs import job_of, lasts_ns, run_problems, runs_of, way_of

BARE = Disk(volume="v", via="local")


def runs(text: str, **more: object) -> tuple[Job, ...]:
    """Return the runs of a job file on a disk of 64 MiB."""
    of = measure(size="64M", fio={"job": text, **more})
    job = job_of(of)
    assert job is not None
    return runs_of(job, of, "/dev/x", "/logs")


def own_lines(job: Job) -> list[str]:
    """Return fio's input without the lines of every run."""
    return job.text.partition("\n[1]\n")[2].splitlines()


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("[a]\n[b]\n", [["a", "b"]]),
        ("[a]\n[b]\nstonewall\n[c]\n", [["a"], ["b", "c"]]),
        ("[global]\nstonewall\n[a]\n[b]\nwait_for_previous=0\n[c]\n", [["a", "b"], ["c"]]),
        ("[a]\n[b]\nwait_for=a\n[c]\nwait_for=b\n", [["a"], ["b"], ["c"]]),
        ("[a]\n[b]\n[c]\nwait_for=a\n", [["a", "b", "c"]]),
    ],
)
def test_concurrent_sections_are_one_fio_run(text: str, groups: list[list[str]]) -> None:
    """Keep a section with them that waits for some of them."""
    assert [[one.name for one in run.sections] for run in runs(text)] == groups


def test_fio_gets_numbers_instead_of_section_names() -> None:
    """Number the sections, including references in wait_for."""
    (job,) = runs("[global]\nbs=4k\n[some name]\nrw=randread\n[b]\n[c]\nwait_for=b\n")
    assert "some name" not in job.text
    assert own_lines(job)[:3] == ["bs=4k", "rw=randread", "size=67108864"]
    assert [one.random for one in job.sections] == [True, False, False]
    assert "wait_for=2" in own_lines(job)
    assert {"filename=/dev/x", "allow_file_create=0", "verify_state_save=0", "new_group=1"} <= set(
        job.text.splitlines()
    )


def test_job_file_without_options_uses_fio_defaults() -> None:
    """Use the page cache and psync, as fio does."""
    (job,) = runs("[a]\nrw=read\n")
    assert not any(line.startswith(("direct", "ioengine")) for line in job.text.splitlines())
    assert not job.sections[0].direct


@pytest.mark.parametrize(
    ("lines", "direct"),
    [("direct=1", True), ("direct=1\nbuffered=1", False), ("buffered=0", True), ("", False)],
)
def test_later_of_the_options_direct_and_buffered_takes_precedence(lines: str, direct: bool) -> None:
    """Follow fio."""
    (job,) = runs(f"[a]\n{lines}\n")
    assert job.sections[0].direct is direct


def test_percentages_in_a_job_refer_to_the_measured_size() -> None:
    """Align offsets to blocks, and keep them within a larger disk."""
    (job,) = runs("[a]\nbs=64k\nsize=50%\noffset=33%\n[b]\noffset=75%\nsize=50%\n")
    assert {"size=33554432", "offset=22085632", "size=16777216", "offset=50331648"} <= set(own_lines(job))


def test_replaced_keys_get_the_values_of_the_measure() -> None:
    """Set size, engine, and the time of one combination."""
    text = "[a]\nruntime=1h\ntime_based\nsize=1t\nioengine=windowsaio\n"
    (job,) = runs(text, replace=["runtime", "size", "ioengine"], each="500ms", engine="libaio")
    assert own_lines(job) == ["runtime=500000us", "time_based", "ioengine=libaio", "size=67108864"]
    assert job.sections[0].lasts_ms == 500


@pytest.mark.parametrize(
    ("lines", "fits"),
    [("size=64m", True), ("size=65m", False), ("offset=32m\nsize=33m", False), ("offset=64m", False),
     ("size=16m\noffset_increment=16m\nnumjobs=4", True), ("size=16m\noffset_increment=16m\nnumjobs=5", False),
     ("offset_increment=16m", False), ("io_size=1t", True), ("size=100%", True), ("size=0", True)],
)  # fmt: skip
def test_sections_beyond_the_measured_size_are_refused(lines: str, fits: bool) -> None:
    """Refuse them, because other blocks are not written, or belong to others."""
    assert (not list(run_problems(read_job(f"[a]\n{lines}\n"), 64 << 20))) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [("[a]\nbs=1g\niodepth=64\nsize=64m\n", False), ("[a]\nnumjobs=300\n[b]\nnumjobs=300\n", False),
     ("[a]\nnumjobs=300\n[b]\nstonewall\nnumjobs=300\n", True)],
)  # fmt: skip
def test_memory_of_concurrent_sections_is_limited(text: str, fits: bool) -> None:
    """Limit each section separately if they run in sequence."""
    assert (not list(run_problems(read_job(text), 64 << 20))) is fits


def test_duration_of_a_job_file_is_the_sum_of_its_runs() -> None:
    """Count the longest of concurrent sections."""
    text = (
        "[global]\ntime_based\n[a]\nruntime=2\nramp_time=1\n[b]\nruntime=1\n[c]\nruntime=500ms\nstonewall\n"
    )
    assert lasts_ns(read_job(text), measure(fio={"job": text})) == 3_500_000_000


def report_of(**more: object) -> str:
    """Return fio's output of two sections: one that reads, one that reads and writes."""
    bins = {"10000": 100}
    jobs = [
        {"jobname": "1", "error": 0, "job_runtime": 1000, "usr_cpu": 1.0, "sys_cpu": 1.0,
         "read": direction(100, bins), "write": direction(0, {})},
        {"jobname": "2", "error": 0, "job_runtime": 1000, "usr_cpu": 1.0, "sys_cpu": 1.0,
         "read": direction(100, bins), "write": direction(50, bins), **more},
    ]  # fmt: skip
    return json.dumps({"timestamp_ms": 1_700_000_000_000, "jobs": jobs}, indent=1)


def test_fio_table_has_a_row_per_section_and_direction() -> None:
    """Use its name, whatever fio's job name."""
    (job,) = runs("[a long name]\nrate_iops=50\nnumjobs=2\n[both]\nrw=rw\n")
    figures = [figure_of(one) for one in accesses_of(job, parse_fio(report_of()))]
    assert [(one.section, one.phase, one.offered_per_s) for one in figures] == [
        ("a long name", "read", 100),
        ("both", "read", None),
        ("both", "write", None),
    ]


def test_errors_ignored_by_continue_on_error_fail_the_trial() -> None:
    """Count errors in fio's report."""
    (job,) = runs("[a]\n[b]\ncontinue_on_error=all\n")
    with pytest.raises(ValueError, match="job b: the job continued after 3 I/O errors"):
        accesses_of(job, parse_fio(report_of(total_err=3)))


def test_section_whose_report_lacks_latencies_has_no_latency_metrics() -> None:
    """Report no 0 ns for gtod_reduce."""
    (job,) = runs("[a]\n[b]\ngtod_reduce=1\n")
    untimed = {**direction(100, {}), "lat_ns": {"max": 0, "mean": 0.0, "bins": {}}}
    done = accesses_of(job, parse_fio(report_of(read=untimed, write=untimed)))
    assert [figure_of(one).latency is None for one in done] == [False, True, True]


LOGS = """==> /x/log_bw.1.log <==
1000100, 1000, 0, 0, 0
1000200, 1000, 0, 0, 0
==> /x/log_bw.2.log <==
1000101, 500, 0, 0, 0
1000199, 300, 0, 0, 0
1000301, 200, 0, 0, 0
==> /x/log_iops.1.log <==
1000100, 30, 0, 0, 0
==> /x/log_iops.2.log <==
1000101, 10, 0, 0, 0
==> /x/log_lat.1.log <==
1000100, 100, 0, 0, 0
==> /x/log_lat.2.log <==
1000101, 500, 0, 0, 0
==> /x/log_bw.3.log <==
1000150, 7, 1, 0, 0
"""


def test_jobs_of_a_section_are_merged_into_one_series() -> None:
    """Add rates by time of day, and weight latencies by their counts."""
    (job,) = runs("[global]\ntime_based\nruntime=1\n[two jobs]\nnumjobs=2\n[writer]\nrw=write\n")
    found = {(one.name, one.dimensions.section): one for one in log_series(job, LOGS, -1_000_000_000_000)}
    rate = found["disk_bytes_per_s", "two jobs"]
    assert list(rate.at_ns) == [100_000_000, 200_000_000, 300_000_000]
    assert list(rate.values) == [(1000 + 300) * 1024, 1000 * 1024, 200 * 1024]
    assert list(found["disk_latency_mean_ns", "two jobs"].values) == [200]
    assert found["disk_bytes_per_s", "writer"].dimensions.part == "write"


def test_long_run_with_many_jobs_logs_fewer_points() -> None:
    """Fit all into the kept output."""
    (short,) = runs("[a]\ntime_based\nruntime=10\nnumjobs=4\n")
    (long,) = runs("[a]\ntime_based\nruntime=1h\nnumjobs=64\n")
    assert (short.log_ms, "log_avg_msec=100" in short.text.splitlines()) == (100, True)
    assert 3 * 2 * 64 * 3_600_000 / long.log_ms <= 80_000


def test_each_run_has_a_ledger_in_which_ramp_time_io_is_uncounted() -> None:
    """Name reads during ramp_time, which fio does not count."""
    first, second = runs("[a]\ndirect=1\nrw=read\n[b]\ndirect=1\nstonewall\nramp_time=1\n")
    rows = rows_of((), {"device": Counted(read_bytes=0, written_bytes=0)},
                   {"device": Counted(read_bytes=1 << 20, written_bytes=0)})  # fmt: skip
    assert [step.cause for step in steps(rows, way_of(first.sections, BARE))] == ["unexplained", "none"]
    assert [step.cause for step in steps(rows, way_of(second.sections, BARE))] == ["uncounted", "none"]
    assert rows[0] == Row("program", Counted(read_bytes=0, written_bytes=0, reads=0, writes=0))


def test_published_job_files_run_with_their_replaced_options() -> None:
    """Run all thirty that fio itself can run, without any other change."""
    found = list(published())
    accepted = []
    for one in found:
        of = measure(size="4M", fio={"job": one.text, "replace": list(one.replace)})
        job = job_of(of)
        assert job is not None
        assert runs_of(job, of, "/dev/x", "/logs")
        accepted += [one.repository] if not any(run_problems(job, 4 << 20)) else []
    assert len(found) == 30
    assert len(accepted) >= 27
