"""Disk programs: their requests, and their outputs in exact units."""

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
    """Return the agent's request for a measure."""
    program: Program = resolve_name(DISK_PROGRAMS[asked.program].runner)
    return program.request_of(asked, node, folder, behind)


def examples() -> list[dict[str, Any]]:
    """Return the JSON examples of the contract."""
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", CONTRACT.read_text(), re.DOTALL)]


def test_every_report_example_in_the_contract_is_parsed() -> None:
    """Compute figures of those with phases."""
    reports = [example for example in examples() if "phases" in example]
    assert len(reports) == 4
    figures = [own_figures(parse_own(json.dumps(report))) for report in reports]
    assert figures[0] == (DiskFigure("read", 4096, 4096, 1, 52000, cpu_ns=50000, cache="cold"),)


def test_disk_program_requests_have_only_the_fields_defined_in_the_contract() -> None:
    """Send no other field, which the agent would refuse."""
    known = {example["program"]: set(example) for example in examples() if "program" in example}
    for program in ("thput-fsys", "bonnie++", "hdparm"):
        for profile in (None, "legacy-2006", "honest", "modern"):
            asked = request_of(measure(program, profile=profile, files=0), "/dev/x", "/mnt")
            assert set(asked) <= known[program], (program, profile)


def test_profiles_set_data_caching_direct_writes_and_the_bonnie_edition() -> None:
    """Check each profile."""
    behind = request_of(measure("thput-fsys", profile="honest"), "/dev/x", "/mnt", behind=["/run/door"])[
        "behind"
    ]
    assert behind == ["/run/door"]
    honest = request_of(measure("thput-fsys", profile="honest"), "/dev/x", "/mnt")
    assert (honest["data"], honest["cache"], honest["size_bytes"]) == ("incompressible", "cold", 1 << 30)
    assert request_of(measure("thput-fsys", profile="modern"), "/dev/x", "/mnt")["direct"] is True
    assert request_of(measure("bonnie++", profile="legacy-2006"), "/dev/x", "/mnt")["edition"] == "1.03"
    assert request_of(measure("bonnie++", profile="honest"), "/dev/x", "/mnt")["edition"] == "2.00"


def test_every_disk_program_has_a_row_with_a_runner() -> None:
    """Compare the language with the table, and load each runner."""
    assert set(DISK_PROGRAMS) == set(get_args(DiskProgramName))
    assert {one for row in DISK_PROGRAMS.values() for one in row.profiles} < set(PROFILES)
    assert all(isinstance(resolve_name(row.runner), Runner) for row in DISK_PROGRAMS.values())


def test_original_programs_are_used_if_they_exist_and_support_the_profile() -> None:
    """Use iolab's own thput-fsys, which has no package."""
    assert [runs_own(measure(name)) for name in ("hdparm", "bonnie++", "thput-fsys")] == [False, False, True]
    assert runs_own(measure("hdparm", profile="honest"))
    bonnie: Program = resolve_name(DISK_PROGRAMS["bonnie++"].runner)
    argv = bonnie.argv(measure("bonnie++", files=2048, size="256M"), "/dev/x", "/mnt")
    assert " ".join(argv) == "bonnie++ -q -d /mnt -s 256M -r 128 -n 2"


@pytest.mark.parametrize("text", ["[]", '{"phases":[{"name":"x"}]}', '{"phases":NaN}', "", "nonsense"])
def test_malformed_report_of_a_disk_program_is_refused(text: str) -> None:
    """Refuse numbers that are missing or are none."""
    with pytest.raises(ValueError, match=r".+"):
        parse_own(text)


def test_hdparm_megabytes_are_mebibytes_and_its_time_follows_from_its_rate() -> None:
    """Compute 5036 MB at 2526.14 MB/s, because 1.99 s is rounded."""
    cached, buffered = parse_hdparm(HDPARM)
    assert (cached.phase, cached.bytes) == ("cached", 5036 << 20)
    assert cached.duration_ns == pytest.approx(1_993_555_000, rel=1e-6)
    assert (buffered.phase, buffered.operations) == ("buffered", 226)


def test_rate_of_a_short_hdparm_timing_is_exact() -> None:
    """Compute 1882 MB/s for 64 MB in 0.034 s, not the 2133 of 0.03 s; read a slow rate in kB."""
    short = HDPARM.replace("452 MB in  3.01 seconds = 150.31 MB", " 64 MB in  0.03 seconds = 1882.35 MB")
    buffered = parse_hdparm(short)[1]
    assert buffered.bytes / buffered.duration_ns * 1e9 == pytest.approx(1882.35 * (1 << 20), rel=1e-6)
    slow = HDPARM.replace("452 MB in  3.01 seconds = 150.31 MB", "  2 MB in  3.01 seconds = 680.40 kB")
    assert parse_hdparm(slow)[1].duration_ns == pytest.approx(3_010_000_000, rel=1e-4)


@pytest.mark.parametrize(
    "text", ["", HDPARM.replace("150.31", "0.00"), HDPARM.replace("buffered", "other"), "x: y"]
)
def test_hdparm_output_without_two_timings_is_refused(text: str) -> None:
    """Refuse reads without duration, too."""
    with pytest.raises(ValueError, match="hdparm"):
        parse_hdparm(text)


def test_bonnie_kilobytes_are_kibibytes_and_too_short_phases_are_left_out() -> None:
    """Leave them out instead of a zero."""
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
def test_bonnie_output_of_a_different_format_is_refused(text: str) -> None:
    """Refuse it, because its columns differ."""
    with pytest.raises(ValueError, match=r"bonnie\+\+"):
        parse_bonnie(text, 8 << 20)


def test_disk_metrics_are_bytes_or_operations_per_second_by_phase_and_block_size() -> None:
    """Include the CPU time of the program if known."""
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
