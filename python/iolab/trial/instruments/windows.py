"""Windows as an agent keeps them, unpacked: numbers, frames and bytes as columns. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iolab.agent.watch import Packed

Column = NDArray[np.int64]
_MORE = 0x80
_LONGEST = 10
"""Groups of seven bits of a number below 2^64."""


@dataclass(frozen=True, slots=True, eq=False)
class Unpacked:
    """Windows in which something passed, in order."""

    numbers: Column
    """Which: n begins at n times the length."""
    frames: Column
    """Frames of each."""
    bytes: Column
    """Bytes of each."""


def unpack(packed: Packed) -> Unpacked:
    """Unpack windows.

    Raises:
        ValueError: the numbers end too early, or are too long.
    """
    values = _numbers(packed.numbers)
    if len(values) % 2:
        raise ValueError("an entry of windows has one number")
    steps, frames = values[::2] >> packed.frame_bits, values[::2] & ((1 << packed.frame_bits) - 1)
    begins = np.flatnonzero(steps > 0) if len(steps) else np.array([], dtype=np.int64)
    if len(steps) and (not len(begins) or begins[0] != 0):
        begins = np.concatenate(([0], begins))
    numbers = np.cumsum(steps)[begins] if len(begins) else steps
    return Unpacked(numbers, _sums(frames, begins), _sums(values[1::2], begins))


def _sums(values: Column, begins: Column) -> Column:
    return np.add.reduceat(values, begins) if len(begins) else values


def _numbers(packed: bytes) -> Column:
    octets = np.frombuffer(packed, dtype=np.uint8)
    ends = np.flatnonzero(octets < _MORE)
    if len(octets) and (not len(ends) or ends[-1] != len(octets) - 1):
        raise ValueError("the last number of windows has no end")
    begins = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    lengths = ends - begins + 1
    if len(lengths) and lengths.max() > _LONGEST:
        raise ValueError("a number of windows is longer than 64 bits")
    values = np.zeros(len(ends), dtype=np.int64)
    for place in range(int(lengths.max()) if len(lengths) else 0):
        has = lengths > place
        group = (octets[begins[has] + place] & 0x7F).astype(np.int64)
        values[has] |= group << (7 * place)
    return values
