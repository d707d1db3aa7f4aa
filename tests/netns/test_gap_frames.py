"""Gap frames on a kernel, as read by tshark: their lengths are the clock of the frames between them."""

import subprocess
from pathlib import Path

import pytest
from tests.netns.runs import Measured

from iolab.results.trial import Status
from iolab.store.read import load_run

pytestmark = pytest.mark.netns

LINE_BPS, FRAMES_PER_S = 100_000_000, 2_000
EXPERIMENT = """
title: Gap frames
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {path: {ends: [near.eth0, far.eth0]}}
measure:
  even:
    kind: latency
    from: near.eth0
    to: far.eth0
    frame_size: 300
    rate: 2kpps
    line_rate: 100Mbit
    spacing: gap-frames
    path: af_packet
    duration: 200ms
    capture: [{at: far.eth0, snaplen: 64, ring: 64M}]
"""
LINE_OVERHEAD_BYTES, FCS_BYTES, SHORTEST_GAP_BYTES = 20, 4, 84
PAUSE_OF_NO_TIME = ["0x8808", "0x0001", "0"]


def test_tshark_finds_each_frame_at_its_byte_position_on_the_line(measured: Measured) -> None:
    """Expect PAUSE frames of time zero between the frames, without gaps."""
    run = measured(EXPERIMENT)
    (record,) = load_run(run).trials
    assert record.result.status is Status.OK, record.result.reason
    (file,) = (run / "samples").glob(f"{record.key}.*.pcapng")
    position, begin, data, gaps = 0, 0, 0, 0
    for length, source, kind, *pause in frames(file):
        if kind == "0x8808":
            assert [kind, *pause[:2]] == PAUSE_OF_NO_TIME
            assert pause[2] == "01:80:c2:00:00:01"
            gaps += 1
        elif int(length) + FCS_BYTES == 300:
            begin = position if data == 0 else begin
            wanted = data * LINE_BPS // 8 // FRAMES_PER_S
            assert wanted - SHORTEST_GAP_BYTES < position - begin <= wanted, f"frame {data} of {source}"
            data += 1
        else:
            continue  # the kernel's own
        position += int(length) + FCS_BYTES + LINE_OVERHEAD_BYTES
    assert data >= 400
    assert gaps > 3 * data


def frames(file: Path) -> list[list[str]]:
    """Return the fields of each frame of a capture."""
    fields = ("frame.len", "eth.src", "eth.type", "macc.opcode", "macc.pause_time", "eth.dst")
    argv = ["tshark", "-r", str(file), "-T", "fields", *(word for field in fields for word in ("-e", field))]
    read = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in read.stdout.splitlines()]
