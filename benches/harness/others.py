"""Generate interference and foreign frames during a measurement."""

import sys
from contextlib import AbstractContextManager

from benches.harness.programs import Running, running, within

HOG = """
import os, sys, time
cpu, priority = map(int, sys.argv[1:3])
seconds, on, off = map(float, sys.argv[3:6])
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
print(flush=True)
end = time.monotonic() + seconds
while time.monotonic() < end:
    rest = time.monotonic() + on
    while time.monotonic() < rest:
        pass
    time.sleep(off)  # the rest of a turn, so that it takes the share that was asked for
"""
FOREIGN = """
import socket, sys, time
port, size, fps, to = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), bytes.fromhex(sys.argv[4])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((port, 0))
frame = to + b"\\x02\\0\\0\\0\\0\\x99" + b"\\x88\\xb5" + bytes(size - 14)
print(flush=True)
begin, sent = time.monotonic(), 0
while True:
    while sent < (time.monotonic() - begin) * fps:
        sent += 1
        try:
            out.send(frame)
        except OSError:
            pass
    time.sleep(0.001)  # what is due by then goes at once
"""
NOBODY, EVERYBODY = "020000000000", "ffffffffffff"
"""Addresses: one without a station, so that bridges flood its frames; and broadcast."""


def hog(
    cpu: int, on_s: float, off_s: float, *, seconds: float = 4, priority: int = 90
) -> AbstractContextManager[Running]:
    """Occupy a CPU alternately: `on_s` busy, `off_s` idle [s]; lower priorities get no CPU time in the busy periods."""
    words = (cpu, priority, seconds, on_s, off_s)
    return running(sys.executable, "-c", HOG, *map(str, words))


def foreign(
    netns: str, port: str, frame_bytes: int, fps: float, *before: str, to: str = EVERYBODY
) -> AbstractContextManager[Running]:
    """Send frames of a local experimental type (IEEE 802: 0x88b5) from a port; `before`: prefix of the command."""
    words = (port, str(frame_bytes), str(fps), to)
    return running(*within(netns, *before, sys.executable, "-c", FOREIGN, *words))
