"""Ranges of addresses and ports, and payloads, in their text form."""

import pytest

from iolab.experiment.model.packets import AddressRange, PortRange, address_range, payload, port_range
from iolab.units import UnitError


@pytest.mark.parametrize(
    ("text", "first", "count", "step"),
    [
        ("198.18.0.1", "198.18.0.1", 1, 1),
        ("198.18.0.0/24", "198.18.0.0", 256, 1),
        ("198.18.0.1-198.18.0.9", "198.18.0.1", 9, 1),
        ("198.18.0.1-198.18.255.1 step 256", "198.18.0.1", 256, 256),
        ("2001:2::/48", "2001:2::", 1_000_000, 1),
        ("2001:2::1-2001:2::ffff", "2001:2::1", 65_535, 1),
    ],
)
def test_address_range_is_a_single_address_a_network_or_a_range(
    text: str, first: str, count: int, step: int
) -> None:
    """Write a range back with the same meaning."""
    found = address_range(text)
    assert (str(found.first), found.count, found.step) == (first, count, step)
    assert address_range(str(found)) == found


@pytest.mark.parametrize(
    ("value", "count", "step"), [(9, 1, 1), ("1024-65535", 64_512, 1), ("0-65535 step 2", 32_768, 2)]
)
def test_port_range_is_a_single_port_or_a_range(value: object, count: int, step: int) -> None:
    """Write a range back with the same meaning."""
    found = port_range(value)
    assert (found.count, found.step) == (count, step)
    assert port_range(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "198.18.0.9-198.18.0.1", "198.18.0.1-2001:2::1", "198.18.0.1/24", "224.0.0.1", "0.0.0.0/0", "host",
        "198.0.0.0-198.255.0.0", "2001:2:0:1::1-2001:2:0:2::1 step 4294967295", "198.18.0.1-198.18.0.9 step 0",
    ],
)  # fmt: skip
def test_invalid_address_range_is_refused(text: str) -> None:
    """Refuse a wrong order, two families, bits below the mask, multicast, and too many addresses."""
    with pytest.raises(UnitError):
        address_range(text)


@pytest.mark.parametrize("value", [65_536, "9-8", -1, True, "http", "1-2 step x", 1.5])
def test_invalid_port_range_is_refused(value: object) -> None:
    """Refuse numbers beyond 16 bits, and words."""
    with pytest.raises(UnitError):
        port_range(value)


@pytest.mark.parametrize("text", ["incrementing", "zeros", "ones", "random:7", "0xdeadbeef"])
def test_payload_is_written_in_its_original_form(text: str) -> None:
    """Write payloads by name."""
    assert str(payload(text)) == text


@pytest.mark.parametrize(
    "text", ["random", "random:-1", "0x", "0xabc", "0xzz", "deadbeef", "0x" + "00" * 1025, 5]
)
def test_invalid_payload_is_refused(text: object) -> None:
    """Refuse no seed, half a byte, no digits, and too many bytes."""
    with pytest.raises(UnitError):
        payload(text)


def test_single_value_and_range_have_different_text_forms() -> None:
    """Check the text of messages."""
    assert str(PortRange(9, 1)) == "9"
    assert str(AddressRange(address_range("198.18.0.1").first, 3, 2)) == "198.18.0.1-198.18.0.5 step 2"
