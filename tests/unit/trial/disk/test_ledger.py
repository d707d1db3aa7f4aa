"""The ledger of layers: reported counts, and causes of their differences."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.wording import in_words

from iolab.lab.volumes.scripts import SHOW_NEGOTIATED
from iolab.messages.disks import LedgerOpen, ReadFromMemory
from iolab.report.locale import EN
from iolab.trial.disk.figures import DiskFigure
from iolab.trial.disk.layers import (
    Below,
    below_of,
    of_block_layer,
    of_monitor,
    of_process,
    of_sockets,
    session_metrics,
    used_by_others,
)
from iolab.trial.disk.ledger import (
    Cause,
    Counted,
    LayerName,
    Row,
    Way,
    between,
    kept_by_door,
    layer_metrics,
    ledger_warnings,
    memory_warnings,
    of_program,
    steps,
)

MIB = 1 << 20
STAT = "  100 5 8192 20 200 7 16384 30 0 40 50 0 0 0 0 9 10\n"
SS = """\
0 0 198.18.0.1:46262 198.18.0.2:3260
\t cubic wscale:10,10 rto:204 bytes_sent:3017 bytes_acked:3016 bytes_received:4328424 segs_out:95
"""
IO = "rchar: 9\nwchar: 8\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n"


def row(layer: LayerName, read_mib: float, written_mib: float = 0, operations: int = 100) -> Row:
    """Return a layer with these bytes."""
    moved = (round(read_mib * MIB), round(written_mib * MIB))
    return Row(layer, Counted(read_bytes=moved[0], written_bytes=moved[1], reads=operations, writes=0))


FILES = Way(direct=False, file_system=True)
BARE = Way(direct=True, file_system=False)
DOOR = Way(direct=False, file_system=True, door=True)
CLAIMED = Way(direct=True, file_system=False, claimed=True)


def causes(*rows: Row, way: Way = FILES) -> list[Cause]:
    """Return the causes of a comparison's reads."""
    found = steps(rows, way)
    return [one.cause for one in found if one.direction == "read"]


def test_counters_of_each_layer_are_parsed_from_kernel_or_monitor_output() -> None:
    """Count sectors of 512 bytes; read both directions from a line of `ss`."""
    block = of_block_layer(STAT)
    assert block == Counted(
        read_bytes=8192 * 512, written_bytes=16384 * 512, reads=100, writes=200, flushes=9
    )
    assert of_process(IO) == Counted(read_bytes=4096, written_bytes=8192)
    assert of_sockets(SS) == Counted(read_bytes=4328424, written_bytes=3016)
    stats = {"rd_bytes": 5, "wr_bytes": 6, "rd_operations": 1, "wr_operations": 2, "flush_operations": 3}
    answer = [{"device": "image0", "stats": {}}, {"device": "disk0", "stats": stats}]
    assert of_monitor(answer, "disk0") == Counted(read_bytes=5, written_bytes=6, reads=1, writes=2, flushes=3)


@pytest.mark.parametrize("text", ["", "1 2 3", "no such file"])
def test_layer_without_counters_is_left_out(text: str) -> None:
    """Report no zero."""
    assert of_block_layer(text) is None
    assert of_process(text) is None
    assert of_sockets(text) is None
    assert of_monitor(None, "disk0") is None


def test_difference_of_up_to_1_percent_between_layers_needs_no_cause() -> None:
    """Allow 1 %, or a few blocks."""
    assert causes(row("program", 100), row("device", 100.9), row("target", 100.1)) == ["none", "none"]
    assert causes(row("program", 0), row("device", 0.1)) == ["none"]


def test_difference_between_program_and_device_has_a_named_cause() -> None:
    """Accept cached blocks and read-ahead; accept nothing on a bare device with direct I/O."""
    assert causes(row("program", 100), row("device", 20)) == ["cache"]
    assert causes(row("program", 100), row("device", 130)) == ["readahead"]
    assert causes(row("program", 100), row("device", 130), way=BARE) == ["unexplained"]
    journal = steps((row("program", 0, 100), row("device", 0, 105)), FILES)
    assert [one.cause for one in journal] == ["none", "metadata"]


def test_reads_of_a_claim_are_a_named_cause_up_to_their_size() -> None:
    """Allow reads for file system signatures at both ends."""
    assert causes(row("program", 0), row("device", 0.35), way=CLAIMED) == ["signatures"]
    assert causes(row("program", 0), row("device", 5), way=CLAIMED) == ["unexplained"]
    assert causes(row("program", 0), row("device", 0.35), way=BARE) == ["unexplained"]


def test_uncounted_bytes_are_a_named_cause_up_to_their_bound() -> None:
    """Allow fio's ramp on a throttled disk."""
    ramp = Way(direct=True, file_system=False, uncounted_bytes=24 * MIB)
    assert causes(row("program", 120), row("device", 140), way=ramp) == ["uncounted"]
    assert causes(row("program", 120), row("device", 145), way=ramp) == ["unexplained"]
    assert causes(row("program", 140), row("device", 120), way=ramp) == ["unexplained"]


def test_network_headers_are_a_named_cause_up_to_their_size() -> None:
    """Compare the target with the layer above the network."""
    ok = (row("device", 100), row("network", 101.5), row("target", 100))
    assert causes(*ok) == ["headers", "none"]
    assert causes(row("device", 100), row("network", 150)) == ["unexplained"]
    assert causes(row("device", 100), row("network", 60)) == ["unexplained"]


def test_unexplained_difference_gives_a_warning_with_both_layers() -> None:
    """Include the size."""
    found = steps((row("device", 100), row("hypervisor", 90)), BARE)
    (warning,) = ledger_warnings(found)
    assert warning == LedgerOpen(above="device", below="hypervisor", direction="read", more_bytes=-10 * MIB)


def test_reads_from_memory_give_a_warning_if_they_are_a_quarter_or_more() -> None:
    """Report them, because they measure memory, whatever the declaration."""
    few, many = (steps((row("program", 100), row("device", left)), FILES) for left in (80, 10))
    assert memory_warnings("bonnie++", 100 * MIB, few) == ()
    (warning,) = memory_warnings("bonnie++", 100 * MIB, many)
    assert warning == ReadFromMemory(program="bonnie++", read_bytes=100 * MIB, disk_bytes=10 * MIB)


def test_byte_counts_of_a_program_follow_from_its_phases() -> None:
    """Count rewriting twice, and deliberate memory reads not at all."""
    phases = [
        DiskFigure("put-block", 8192, 10, 1, 1),
        DiskFigure("rewrite", 8192, 20, 2, 1),
        DiskFigure("get-block", 8192, 30, 3, 1),
        DiskFigure("cached", 8192, 4000, 4, 1),
        DiskFigure("mixed-write", 8192, 5, 5, 1),
        DiskFigure("create-random", 0, 0, 6, 1),
    ]
    assert of_program(phases) == Counted(read_bytes=50, written_bytes=35, reads=5, writes=8)


def test_layer_metrics_are_counter_differences() -> None:
    """Subtract readings; give no metric for uncounted values."""
    before, after = Counted(read_bytes=5, written_bytes=6), Counted(read_bytes=15, written_bytes=6)
    seen = between(before, after)
    assert seen == Counted(read_bytes=10, written_bytes=0)
    names = [metric.quantity.name for metric in layer_metrics([Row("target", seen)])]
    assert names == ["disk_layer_bytes", "disk_layer_bytes"]


def test_reads_cached_by_a_user_space_export_are_a_named_cause() -> None:
    """Warn of reads that no lower layer saw, not of read-ahead."""
    kept = (row("program", 100), row("device", 100), row("network", 60), row("target", 59))
    assert causes(*kept, way=DOOR) == ["none", "cache", "cache"]
    ahead = (row("program", 100), row("device", 100), row("network", 110), row("target", 109))
    assert causes(*ahead, way=DOOR) == ["none", "readahead", "readahead"]
    honest = (row("program", 100), row("device", 100), row("network", 101.5), row("target", 100))
    assert causes(*honest, way=DOOR) == ["none", "headers", "none"]
    shown = [kept_by_door(steps(rows, DOOR)) for rows in (kept, ahead, honest, ())]
    assert shown == [True, False, False, None]


def test_missing_reads_without_a_user_space_export_are_unexplained() -> None:
    """Check a guest's device and its hypervisor, which have nothing in between."""
    assert causes(row("program", 100), row("device", 100), row("hypervisor", 60)) == ["none", "unexplained"]


def test_unexplained_difference_is_shown_in_readable_bytes_with_its_sign() -> None:
    """Show a negative difference if the lower layer has fewer bytes."""
    warning = LedgerOpen(above="device", below="target", direction="read", more_bytes=-255 * MIB)
    assert in_words(warning) == (
        "the read byte counts of target and device differ by -255 MiB, which neither a cache nor headers explain"
    )


SECOND = 1_000_000_000
ZERO = Below(Counted(read_bytes=0, written_bytes=0, reads=0, writes=0), 0, 0)
OWN = Counted(read_bytes=300 * MIB, written_bytes=100 * MIB, reads=3000, writes=1000)


def reached(more_bytes: int = 0, more_requests: int = 0, busy_ns: int = 9 * SECOND) -> Below:
    """Return the disk's counts after 10 s: the trial's part, and more."""
    counted = replace(
        OWN, read_bytes=OWN.read_bytes + more_bytes, reads=(OWN.reads or 0) + more_requests, flushes=None
    )
    return Below(counted, busy_ns, 10 * SECOND)


def test_disk_statistics_contain_the_busy_time() -> None:
    """Follow the kernel's column numbers; return nothing for malformed lines."""
    seen = below_of("10 1 16 5 20 2 32 6 0 250 11 0 0 0 0 3 1\n", 7)
    assert seen is not None
    assert (seen.busy_ns, seen.at_ns, seen.counted.read_bytes) == (250_000_000, 7, 8192)
    assert below_of("none\n", 7) is None


def test_disk_use_by_other_processes_gives_a_warning() -> None:
    """Use bytes or requests, whichever is more, because flushed small writes move few bytes."""
    (warning,) = used_by_others("v", ZERO, reached(more_bytes=400 * MIB), OWN)
    assert EN.said.say(warning) == (
        "programs outside this trial used the disk below volume v: they caused 50 % of its I/O, at least 419430400 "
        "bytes, and the disk was busy for 90 % of the time"
    )
    (warning,) = used_by_others("v", ZERO, reached(more_requests=4000), OWN)
    assert (warning.others_ratio, warning.others_bytes, warning.comparable) == (0.5, 0, False)


@pytest.mark.parametrize(
    ("before", "after", "own"),
    [
        (ZERO, reached(), OWN),
        (ZERO, reached(more_bytes=20 * MIB, more_requests=200), OWN),
        (ZERO, reached(more_bytes=400 * MIB, busy_ns=SECOND), OWN),
        (ZERO, reached(), replace(OWN, read_bytes=4000 * MIB, reads=None)),
        (None, reached(more_bytes=400 * MIB), OWN),
        (ZERO, None, OWN),
        (ZERO, ZERO, OWN),
    ],
    ids=["own use", "slight foreign use", "disk with idle time",
         "cached reads", "no reading", "removed disk", "no elapsed time"],
)  # fmt: skip
def test_undisturbed_or_unreadable_disk_gives_no_warning(
    before: Below | None, after: Below | None, own: Counted
) -> None:
    """Require a reading."""
    assert not list(used_by_others("v", before, after, own))


TARGET = "iqn.2026-01.net.iolab:lun0"


def test_script_reads_only_the_iscsi_session_of_the_given_target(tmp_path: Path) -> None:
    """Read /sys of Linux 6.1; use the protocol's parameter names."""
    for number, target in enumerate((TARGET, "iqn.2024-01.other:disk"), 1):
        session = tmp_path / f"iscsi_session/session{number}"
        line = session / "device/connection1:0/iscsi_connection/connection1:0"
        line.mkdir(parents=True)
        values = {"targetname": target, "first_burst_len": 65536 * number, "max_burst_len": 262144}
        values |= {"initial_r2t": 1, "immediate_data": 1}
        for name, value in values.items():
            (session / name).write_text(f"{value}\n")
        for name in ("max_recv_dlength", "max_xmit_dlength", "header_digest", "data_digest"):
            (line / name).write_text("8192\n" if "xmit" in name else "0\n")
    script = SHOW_NEGOTIATED.replace("/sys/class", str(tmp_path))
    shown = subprocess.run(["sh", "-c", script, TARGET], capture_output=True, text=True, check=True).stdout
    agreed = dict(line.split("=") for line in shown.splitlines())
    assert agreed["FirstBurstLength"] == "65536"
    assert agreed["MaxXmitDataSegmentLength"] == "8192"
    assert agreed["InitialR2T"] == "1"


def test_iscsi_parameters_that_are_sizes_become_metrics_and_those_that_are_words_do_not() -> None:
    """Use the protocol's names; give no zero for missing values."""
    session = {"FirstBurstLength": "65536", "InitialR2T": "1", "MaxBurstLength": ""}
    found = list(session_metrics(session, {"FirstBurstLength": "131072", "ImmediateData": "Yes"}))
    assert [(one.name, one.quantity.dimensions.part, one.value) for one in found] == [
        ("iscsi_agreed_bytes", "FirstBurstLength", 65536.0),
        ("iscsi_asked_bytes", "FirstBurstLength", 131072.0),
    ]
