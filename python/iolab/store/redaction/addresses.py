"""Replacement of IP and MAC addresses. Two IP addresses with a common prefix keep a common prefix of the same length.

The method is that of Crypto-PAn (Xu et al., 2002): whether a bit is inverted depends on a secret key and on the bits
before it. The result is thus a consistent lab: subnets stay subnets, and different addresses stay different.
"""

import hashlib
import ipaddress
from collections.abc import Iterable
from functools import lru_cache

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
KEPT = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3",  # RFC 6890; includes netmasks
        "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15",  # documentation, benchmarks
        "::/16", "ff00::/8", "2001:db8::/32", "2001:2::/48",
    )
)  # fmt: skip
"""Networks whose addresses identify no host."""
PRIVATE = tuple(ipaddress.ip_network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
"""Networks of RFC 1918, which addresses do not leave."""
FIRST_BITS = {4: 8, 6: 16}
"""Number of leading bits of other addresses that stay the same."""
LAST_BITS = 8
"""Number of trailing bits that stay the same, so that no host address becomes a network or broadcast address."""


class Addresses:
    """The replacement of the addresses of one run."""

    def __init__(self, key: bytes, networks: Iterable[Network]) -> None:
        """Create a replacement; the addresses of `networks` stay network addresses: their host bits stay 0."""
        self._key = key
        self._networks = {(each.version, int(each.network_address), each.prefixlen) for each in networks}
        self.replaced: dict[str, str] = {}
        """Every replaced address, as written, and its replacement."""

    def ip(self, text: str) -> str:
        """Return the replacement of an IP address; the text is unchanged if it is no address, or identifies no
        host."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text
        if any(address in network for network in KEPT if network.version == address.version):
            return text
        changed = self._changed(address)
        self.replaced[text] = changed
        return changed

    def _changed(self, address: Address) -> str:
        length = address.max_prefixlen
        kept = next(
            (each.prefixlen for each in PRIVATE if each.version == address.version and address in each),
            FIRST_BITS[address.version],
        )
        value, changed = int(address), 0
        for at in range(length):
            before = value >> (length - at) << (length - at)
            bit = value >> (length - 1 - at) & 1
            is_free = kept <= at < length - LAST_BITS
            changed = changed << 1 | (bit ^ (is_free and self._inverts(address.version, before, at, length)))
        return str(type(address)(changed))

    def _inverts(self, version: int, before: int, at: int, length: int) -> bool:
        """Whether the bit at a place is inverted after the bits before it."""
        if version == 6 and at >= 64 and not before & ((1 << (length - 64)) - 1):
            return False  # interface identifiers such as ::1 stay small
        if any((version, before, bits) in self._networks for bits in range(at + 1)):
            return False
        return bool(_random_byte(self._key, version, before >> (length - at), at) & 1)

    def mac(self, text: str) -> str:
        """Return the replacement of a MAC address, which is a locally administered one; group addresses and zeros stay
        the same."""
        digits = text.lower().replace(":", "").replace("-", "")
        if int(digits[1], 16) & 1 or not int(digits, 16):
            return text
        changed = f"02{hashlib.blake2b(digits.encode(), key=self._key, digest_size=5).hexdigest()}"
        separator = next((each for each in ":-" if each in text), "")
        written = separator.join(changed[at : at + 2] for at in range(0, 12, 2))
        self.replaced[text] = written
        return written


@lru_cache(maxsize=1 << 16)
def _random_byte(key: bytes, version: int, bits: int, at: int) -> int:
    return hashlib.blake2b(f"{version} {at} {bits:x}".encode(), key=key, digest_size=1).digest()[0]
