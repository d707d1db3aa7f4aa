"""Disk programs: what is asked of them, and what their outputs say in exact units."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, get_args

import pytest

from iolab.experiment.model.measures import DiskMeasure
from iolab.registry.disk_programs import DISK_PROGRAMS, PROFILES, DiskProgramName
from iolab.results.metric import Dimensions
from iolab.trial.disk.disk_programs import runs_own
from iolab.trial.disk.figures import DiskFigure, metrics_of
from iolab.trial.disk.own import own_figures, parse_own
from iolab.trial.disk.programs import Program, parse_bonnie, parse_hdparm, too_short
from iolab.trial.disk.ran import Runner

CONTRACT = Path(__file__).parents[4] / "contract" / "disk-v1.md"
HDPARM = """
/dev/loop0:
 Timing cached reads:   5036 MB in  1.99 seconds = 2526.14 MB/sec
 Timing buffered disk reads: 452 MB in  3.01 seconds = 150.31 MB/sec
"""
BONNIE = (
    "1.98,2.00a,vm,1,1795333721,8M,,8192,5,21,16,+++++,+++,2048,9,27,17,+++++,+++,4552,192,1,,,,,1705,20,+++++,+++,"
    "+++++,+++,+++++,+++,+++++,+++,+++++,+++,4629ms,1937us,2224us,5672ms,3324us,10479us,11085us,2639us,2899us,5243us,"
    "5305us,3039us"
)


def measure(program: str, **more: object) -> DiskMeasure:
    """Return a measure."""
    return DiskMeasure.model_validate({"kind": "disk", "on": "pc2", "program": program, **more})


def request_of(asked: DiskMeasure, node: str, folder: str, behind: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the agent is asked for a measure."""
    program: Program = resolve_name(DISK_PROGRAMS[asked.program].runner)
    return program.request_of(asked, node, folder, behind)


def examples() -> list[dict[str, Any]]:
    """Return the JSON examples of the contract."""
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", CONTRACT.read_text(), re.DOTALL)]


def test_every_report_of_the_contract_is_read() -> None:
    """Those with phases give figures."""
    reports = [example for example in examples() if "phases" in example]
    assert len(reports) == 4
    figures = [own_figures(parse_own(json.dumps(report))) for report in reports]
    assert figures[0] == (DiskFigure("read", 4096, 4096, 1, 52000, cpu_ns=50000, cache="cold"),)


def test_requests_have_the_fields_of_the_contract() -> None:
    """No other: the agent refuses those."""
    known = {example["program"]: set(example) for example in examples() if "program" in example}
    for program in ("thput-fsys", "bonnie++", "hdparm"):
        for profile in (None, "legacy-2006", "honest", "modern"):
            asked = request_of(measure(program, profile=profile, files=0), "/dev/x", "/mnt")
            assert set(asked) <= known[program], (program, profile)


def test_profiles_change_data_caches_and_direct_writes() -> None:
    """And the edition of bonnie++."""
    behind = request_of(measure("thput-fsys", profile="honest"), "/dev/x", "/mnt", behind=["/run/door"])[
        "behind"
    ]
    assert behind == ["/run/door"]
    honest = request_of(measure("thput-fsys", profile="honest"), "/dev/x", "/mnt")
    assert (honest["data"], honest["cache"], honest["size_bytes"]) == ("incompressible", "cold", 1 << 30)
    assert request_of(measure("thput-fsys", profile="modern"), "/dev/x", "/mnt")["direct"] is True
    assert request_of(measure("bonnie++", profile="legacy-2006"), "/dev/x", "/mnt")["edition"] == "1.03"
    assert request_of(measure("bonnie++", profile="honest"), "/dev/x", "/mnt")["edition"] == "2.00"


def test_every_program_has_a_row() -> None:
    """The language's words and the table are the same; what a row says there is, can be run."""
    assert set(DISK_PROGRAMS) == set(get_args(DiskProgramName))
    assert {one for row in DISK_PROGRAMS.values() for one in row.profiles} < set(PROFILES)
    assert all(isinstance(resolve_name(row.runner), Runner) for row in DISK_PROGRAMS.values())


def test_packages_measure_where_no_profile_asks_for_more() -> None:
    """thput-fsys has no package."""
    assert [runs_own(measure(name)) for name in ("hdparm", "bonnie++", "thput-fsys")] == [False, False, True]
    assert runs_own(measure("hdparm", profile="honest"))
    bonnie: Program = resolve_name(DISK_PROGRAMS["bonnie++"].runner)
    argv = bonnie.argv(measure("bonnie++", files=2048, size="256M"), "/dev/x", "/mnt")
    assert " ".join(argv) == "bonnie++ -q -d /mnt -s 256M -r 128 -n 2"


@pytest.mark.parametrize("text", ["[]", '{"phases":[{"name":"x"}]}', '{"phases":NaN}', "", "nonsense"])
def test_a_report_that_is_none_is_refused(text: str) -> None:
    """So is one whose numbers are not numbers, or are missing."""
    with pytest.raises(ValueError, match=r".+"):
        parse_own(text)


def test_hdparms_megabytes_are_mebibytes_and_its_time_is_that_of_its_rate() -> None:
    """5036 MB at 2526.14 MB/s: not in the 1.99 s that are printed."""
    cached, buffered = parse_hdparm(HDPARM)
    assert (cached.phase, cached.bytes) == ("cached", 5036 << 20)
    assert cached.duration_ns == pytest.approx(1_993_555_000, rel=1e-6)
    assert (buffered.phase, buffered.operations) == ("buffered", 226)


def test_a_small_disk_that_hdparm_reads_in_hundredths_of_a_second_has_the_rate_that_it_had() -> None:
    """64 MB in 0.034 s are 1882 MB/s, not the 2133 that 0.03 s would be; a slow one is in kB."""
    short = HDPARM.replace("452 MB in  3.01 seconds = 150.31 MB", " 64 MB in  0.03 seconds = 1882.35 MB")
    buffered = parse_hdparm(short)[1]
    assert buffered.bytes / buffered.duration_ns * 1e9 == pytest.approx(1882.35 * (1 << 20), rel=1e-6)
    slow = HDPARM.replace("452 MB in  3.01 seconds = 150.31 MB", "  2 MB in  3.01 seconds = 680.40 kB")
    assert parse_hdparm(slow)[1].duration_ns == pytest.approx(3_010_000_000, rel=1e-4)


@pytest.mark.parametrize(
    "text", ["", HDPARM.replace("150.31", "0.00"), HDPARM.replace("buffered", "other"), "x: y"]
)
def test_hdparm_without_two_timings_is_no_measurement(text: str) -> None:
    """Nor are reads that took no time."""
    with pytest.raises(ValueError, match="hdparm"):
        parse_hdparm(text)


def test_bonnies_kilobytes_are_kibibytes_and_a_phase_too_short_for_it_is_left_out() -> None:
    """A zero would be a wrong figure; a hole says what happened."""
    figures = {figure.phase: figure for figure in parse_bonnie(BONNIE, 8 << 20)}
    assert set(figures) == {"put-byte", "rewrite", "get-byte", "seeks", "create-sequential"}
    assert too_short(BONNIE)[:2] == ("put-block", "get-block")
    assert figures["rewrite"].duration_ns == 4_000_000_000
    assert figures["put-byte"].bytes == 3 << 20, "whatever the size of its file"
    assert figures["create-sequential"].operations == 1024
    seeks = metrics_of([figures["seeks"]]).get(
        "disk_operations_per_s", Dimensions(part="seeks", block_bytes=8192)
    )
    assert seeks is not None
    assert seeks.value == pytest.approx(4552)


@pytest.mark.parametrize(
    "text",
    ["", "1.97" + BONNIE[4:], BONNIE.replace("2048", "nan"), BONNIE.replace("2048", "0"), "1.98,2.00a"],
)
def test_another_line_of_bonnie_is_refused(text: str) -> None:
    """Another format has other columns."""
    with pytest.raises(ValueError, match=r"bonnie\+\+"):
        parse_bonnie(text, 8 << 20)


def test_metrics_are_bytes_or_operations_per_second_about_a_phase_and_its_blocks() -> None:
    """And the CPU of the program, where it says."""
    metrics = metrics_of([
        DiskFigure("write", 512, 1 << 30, 2 << 20, 2_000_000_000, cpu_ns=500_000_000),
        DiskFigure("stat-random", 0, 0, 100, 500_000_000),
    ])  # fmt: skip
    about = Dimensions(part="write", block_bytes=512)
    assert [(each.name, each.unit, each.value, each.dimensions) for each in metrics] == [
        ("disk_bytes_per_s", "byte/s", float(1 << 29), about),
        ("disk_cpu_ratio", "ratio", 0.25, about),
        ("disk_operations_per_s", "op/s", 200.0, Dimensions(part="stat-random")),
    ]
