"""Captures on a kernel: tshark's view of them, on the ports of all link types."""

import subprocess
from pathlib import Path

import pytest
from tests.netns.runs import Iolab

from iolab.results.trial import Status, TrialResult
from iolab.store.read import load_run

pytestmark = pytest.mark.netns

EXPERIMENT = """
title: A capture
lab:
  machines:
    left: {kind: netns}
    right: {kind: netns}
  links: {path: {ends: [left.eth0, right.eth0], LINK}}
measure:
  udp:
    kind: stream
    protocol: udp
    from: left
    to: right
    rate: RATE
    length: 1000
    duration: 1s
    capture: [CAPTURE]
"""
FIELDS = ("frame.time_epoch", "frame.len", "frame.cap_len", "frame.packet_flags_direction", "ip.proto", "udp.dstport",
          "_ws.malformed")  # fmt: skip


def captured(
    iolab: Iolab, folder: Path, link: str, capture: str, rate: str = "4Mbit"
) -> tuple[TrialResult, dict[str, list[list[str]]]]:
    """Run one trial; return it, and the fields of each frame by file, as read by tshark."""
    path = folder / "capture.yaml"
    path.write_text(EXPERIMENT.replace("LINK", link).replace("CAPTURE", capture).replace("RATE", rate))
    done = iolab("run", path)
    assert done.returncode == 0, done.stderr + done.stdout
    run = folder / done.stdout.splitlines()[-1]
    (record,) = load_run(run).trials
    assert record.result.status is Status.OK, record.result.reason
    files = sorted((run / "samples").glob(f"{record.key}.*.pcapng"))
    options = [word for field in FIELDS for word in ("-e", field)]
    found = {}
    for file in files:
        argv = ["tshark", "-r", str(file), "-T", "fields", *options]
        read = subprocess.run(argv, capture_output=True, text=True, check=True)
        found[file.name.removeprefix(f"{record.key}.")] = [
            line.split("\t") for line in read.stdout.splitlines()
        ]
    return record.result, found


def count(result: TrialResult, name: str) -> list[int]:
    """Return a figure of all ports."""
    return [int(metric.value) for metric in result.metrics.named(name)]


@pytest.mark.parametrize("link", ["mtu: 1500", pytest.param("wire: {delay: 1ms}", marks=pytest.mark.full)])
def test_tshark_reads_every_captured_frame_of_a_stream(iolab: Iolab, tmp_path: Path, link: str) -> None:
    """Check the filter, the snaplen, and increasing nanosecond timestamps."""
    capture = "{at: path, snaplen: 60, filter: {protocol: udp, host: right, port: 5201}}"
    result, files = captured(iolab, tmp_path, link, capture)
    assert list(files) == ["left.eth0.pcapng", "right.eth0.pcapng"]
    for frames, way in zip(files.values(), ("2", "1"), strict=True):
        assert len(frames) > 400, "half a megabyte in datagrams of 1000 bytes"
        assert {frame[4] for frame in frames} == {"17"}
        long = [frame for frame in frames if frame[1] == "1042"]
        assert len(long) >= 480
        assert {(frame[2], int(frame[3], 16), frame[6]) for frame in long} == {("60", int(way), "")}
        stamps = [float(frame[0]) for frame in long]
        assert stamps == sorted(stamps)
        assert all(len(frame[0].split(".")[1]) == 9 for frame in long)
    assert count(result, "captured_frames") == [len(frames) for frames in files.values()]
    assert count(result, "capture_lost_frames") == count(result, "capture_overwritten_frames") == [0, 0]


def test_overwritten_capture_frames_give_a_warning(iolab: Iolab, tmp_path: Path) -> None:
    """Keep the newest frames of a small ring, and count the others."""
    capture = "{at: right.eth0, snaplen: 4K, ring: 1M, filter: {protocol: udp}}"
    result, files = captured(iolab, tmp_path, "mtu: 1500", capture, "40Mbit")
    frames = files["right.eth0.pcapng"]
    assert 500 < len(frames) <= 1_048_576 // 1042, "as many as fit"
    (overwritten,) = count(result, "capture_overwritten_frames")
    assert overwritten + len(frames) == pytest.approx(5000, rel=0.05), "5 MB were sent"
    said = {warning.code for warning in result.warnings}
    assert "capture-overwrote" in said
    assert float(frames[-1][0]) - float(frames[0][0]) < 0.5, "the newest are kept: the last fifth of a second"
