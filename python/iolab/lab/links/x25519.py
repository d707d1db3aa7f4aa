"""Keys of WireGuard's peers: derived from a lab's names, so that a plan is always the same. Good for nothing else.

Diffie-Hellman on Curve25519 (RFC 7748), as slow as Python: a lab has few keys.
"""

from base64 import b64encode
from hashlib import blake2b

PRIME = 2**255 - 19
A24 = 121665
"""(486662 - 2) / 4, of the curve (RFC 7748, section 5)."""
BASE_POINT = 9


def private_key(name: str) -> str:
    """Return the private key that a name has, in base64."""
    return b64encode(
        _clamped(blake2b(name.encode(), digest_size=32, person=b"iolab wireguard").digest())
    ).decode()


def public_key(name: str) -> str:
    """Return the public key that a name has, in base64."""
    secret = _clamped(blake2b(name.encode(), digest_size=32, person=b"iolab wireguard").digest())
    return b64encode(multiplied(secret, BASE_POINT)).decode()


def _clamped(secret: bytes) -> bytes:
    """Return a secret as the curve takes it: a multiple of 8 with the highest bit set."""
    return bytes([secret[0] & 248, *secret[1:31], (secret[31] & 127) | 64])


def multiplied(secret: bytes, point: int) -> bytes:
    """Return a point of the curve multiplied by a clamped secret: its u-coordinate, by Montgomery's ladder."""
    scalar = int.from_bytes(secret, "little")
    x2, z2, x3, z3 = 1, 0, point, 1
    for bit in reversed(range(255)):
        if scalar >> bit & 1:
            x2, z2, x3, z3 = _step(x2, z2, x3, z3, point)
        else:
            x3, z3, x2, z2 = _step(x3, z3, x2, z2, point)
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


def _step(x2: int, z2: int, x3: int, z3: int, point: int) -> tuple[int, int, int, int]:
    """Return the sum and the double of one step, for a set bit: the sum first."""
    plus, minus, other_plus, other_minus = x3 + z3, x3 - z3, x2 + z2, x2 - z2
    doubled_plus, doubled_minus = plus * plus % PRIME, minus * minus % PRIME
    difference = doubled_plus - doubled_minus
    left, right = other_minus * plus % PRIME, other_plus * minus % PRIME
    sum_x, sum_z = (left + right) ** 2 % PRIME, point * (left - right) ** 2 % PRIME
    double_x = doubled_plus * doubled_minus % PRIME
    double_z = difference * (doubled_plus + A24 * difference) % PRIME
    return sum_x, sum_z, double_x, double_z
