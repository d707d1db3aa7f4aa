"""Windows are unpacked as the agent packs them (contract/agent-v1.md, watch.read)."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.agent.watch import Packed
from iolab.trial.instruments.windows import unpack

WINDOWS = st.lists(
    st.tuples(st.integers(1, 1 << 30), st.integers(0, 5000), st.integers(1, 1 << 40)), min_size=0, max_size=40
)


def number(value: int) -> bytes:
    """Write a number in groups of seven bits."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*groups, value))


def packed(windows: list[tuple[int, int, int]], bits: int) -> Packed:
    """Pack (step, frames, bytes) as the agent does."""
    found, room = bytearray(), (1 << bits) - 1
    for step, frames, size in windows:
        full, rest = divmod(frames, room)
        for part in range(full):
            found += number((step if part == 0 else 0) << bits | room) + number(0)
        found += number((step if full == 0 else 0) << bits | rest) + number(size)
    return Packed(bytes(found), bits)


@given(WINDOWS, st.sampled_from([6, 24]))
def test_windows_come_back_as_they_were(windows: list[tuple[int, int, int]], bits: int) -> None:
    """Windows come back as they were."""
    found = unpack(packed(windows, bits))
    numbers = [sum(step for step, _, _ in windows[: at + 1]) for at in range(len(windows))]
    assert found.numbers.tolist() == numbers
    assert found.frames.tolist() == [frames for _, frames, _ in windows]
    assert found.bytes.tolist() == [size for _, _, size in windows]


def test_the_example_of_the_contract_is_one_window_of_one_frame() -> None:
    """The example of the contract is one window of one frame."""
    found = unpack(Packed(base64.b64decode("gbiUkaQO6gs="), 6))
    assert (len(found.numbers), found.frames.tolist(), found.bytes.tolist()) == (1, [1], [1514])


@pytest.mark.parametrize("odd", [b"\x41", b"\x41\x80", b"\xff" * 11 + b"\x01\x01"])
def test_what_is_no_entry_is_refused(odd: bytes) -> None:
    """What is no entry is refused."""
    with pytest.raises(ValueError, match="number"):
        unpack(Packed(odd, 6))
