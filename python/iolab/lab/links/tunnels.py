"""Links over other links as resources: tunnels of each kind, and bonds. Pure.

WireGuard keys are derived from names in the lab, so that a plan is reproducible; they provide no security. The
Diffie-Hellman function on Curve25519 (RFC 7748) is in pure Python, which is slow but sufficient: a lab has few keys.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from shlex import join

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.lab.actions import Command, Expectation, Reading, Run
from iolab.lab.dependencies import base_of, place_of, port_dependencies
from iolab.lab.links.bridges import expect_interface, show_interfaces
from iolab.lab.links.link_topology import mac_of
from iolab.lab.links.overlays import carriers
from iolab.lab.readback.values import Interface, Lines, LinkData
from iolab.lab.resources import Resource
from iolab.lab.topology import Endpoint, Port, Topology
from iolab.locale import Phrase

PRIME = 2**255 - 19
A24 = 121665
"""(486662 - 2) / 4, a constant of the curve (RFC 7748, section 5)."""
BASE_POINT = 9
VXLAN_PORT = 4789
"""UDP port of VXLAN (RFC 7348, section 5)."""
WIREGUARD_PORT = 51820
"""UDP port of a lab's first tunnel; further tunnels use the next ports."""
EVERYBODY = "00:00:00:00:00:00"
"""MAC address of the forwarding table entry for flooded frames."""
EVERYTHING = "0.0.0.0/0,::/0"
"""Networks that contain all IPv4 and all IPv6 addresses."""
BOND_PATIENCE_NS = 20_000_000_000
"""Maximum time until the ends of a bond agree: LACP with fast timers needs 2 to 6 s (IEEE 802.1AX)."""
Outer = dict[str, Endpoint]
"""Endpoint of the outer packets of each tunnel port."""


def overlay_resources(lab: Lab, topology: Topology, link: str, ports: list[Port]) -> Iterator[Resource]:
    """Yield the ends of a tunnel, or the ports of a bond.

    Raises:
        InputError: an end has no address below for its outer packets.
    """
    if lab.links[link].bond is not None:
        yield from (_bond(lab, topology, port) for port in ports)
        return
    outer: Outer = {port.ref: outer_end(lab, topology, port) for port in ports}
    for port in ports:
        others = [other for other in ports if other is not port]
        match lab.links[link].tunnel:
            case "vxlan":
                yield _vxlan(lab, port, others, outer)
            case "wireguard":
                yield _wireguard(lab, topology, port, others, outer)
            case _:
                yield _gre(lab, port, others[0], outer)


def outer_end(lab: Lab, topology: Topology, port: Port) -> Endpoint:
    """Return the endpoint on the link below from which a tunnel's port sends.

    Raises:
        InputError: the port below has no address.
    """
    below = carriers(lab, port.link, port.machine)[0]
    points = topology.endpoints(below)
    if not points:
        seen, allowed = Phrase("lab.port-has-no-address", port=below), Phrase("lab.port-that-can-carry")
        doing = Phrase("lab.carrying-port", port=port.ref)
        raise InputError([Problem(f"lab.links.{port.link}.over", doing, seen, allowed)])
    return points[0]


def number_of(lab: Lab, link: str) -> int:
    """Return the number of a link in its lab, from 1, which distinguishes tunnels without an `id`."""
    return list(lab.links).index(link) + 1


def _end(
    lab: Lab,
    port: Port,
    outer: Outer,
    words: tuple[str, ...],
    more: tuple[Run, ...],
    expect: tuple[Expectation, ...],
) -> Resource:
    """Return one end of a tunnel; the command words `words` create the end, and `more` completes it."""
    point = outer[port.ref]
    mac = mac_of(lab, port.ref) if lab.links[port.link].tunnel in ("vxlan", "gretap") else None
    add = ("ip", "link", "add", "dev", port.name, *(("address", mac) if mac else ()), *words)
    delete = Command(("ip", "link", "del", "dev", port.name), port.netns)
    kind = words[1]
    return Resource(
        key=base_of(lab, port),
        machine=port.machine,
        kernel=port.kernel,
        needs=(*port_dependencies(lab, port), f"address:{point.ref}"),
        actions=(
            Run(Command(add, port.netns), delete),
            *more,
            Run(Command(("ip", "link", "set", "dev", port.name, "up"), port.netns)),
        ),
        expect=(
            expect_interface(port.netns, Interface(port.name, "kind"), kind, f"kind of {port.ref}"),
            expect_interface(port.netns, Interface(port.name, "carrier"), "up", f"carrier of {port.ref}"),
            *expect,
        ),
    )


def _expect_data(port: Port, what: str, values: Mapping[str, str]) -> Expectation:
    """Return the expectation of kind-specific attributes in `ip -d`."""
    shown = " ".join(f"{name} {value}" for name, value in values.items())
    reading = Reading(show_interfaces(port.netns), LinkData(port.name, tuple(values)))
    return Expectation(reading, shown, f"{what} of {port.ref}")


def _vxlan(lab: Lab, port: Port, others: list[Port], outer: Outer) -> Resource:
    here, number = outer[port.ref], lab.links[port.link].id
    vni = str(number_of(lab, port.link) if number is None else number)
    remotes = [outer[other.ref].address for other in others]
    alone = ("remote", remotes[0]) if len(remotes) == 1 else ()
    words = ("type", "vxlan", "id", vni, "dev", here.interface, "local", here.address, *alone)
    words += ("dstport", str(VXLAN_PORT))
    flood = tuple(
        Run(Command(("bridge", "fdb", "append", EVERYBODY, "dev", port.name, "dst", one), port.netns))
        for one in (() if alone else remotes)
    )
    found = {"id": vni, "local": here.address, "port": str(VXLAN_PORT)}
    found |= {"remote": remotes[0]} if alone else {}
    expect = [_expect_data(port, "tunnel", found)]
    if flood:
        show = Command(("bridge", "fdb", "show", "dev", port.name), port.netns)
        lines = Lines(only=EVERYBODY, words=(2,))
        expect.append(Expectation(Reading(show, lines), " ".join(sorted(remotes)), f"far ends of {port.ref}"))
    return _end(lab, port, outer, words, flood, tuple(expect))


def _gre(lab: Lab, port: Port, other: Port, outer: Outer) -> Resource:
    here, there, number = outer[port.ref].address, outer[other.ref].address, lab.links[port.link].id
    kind = f"{'ip6' if ':' in here else ''}{lab.links[port.link].tunnel}"
    whole = ("encaplimit", "none", "hoplimit", "64") if ":" in here else ("ttl", "64")
    key = ("key", str(number)) if number is not None else ()
    words = ("type", kind, "local", here, "remote", there, *whole, *key)
    keyed = {} if number is None else {"ikey": _dotted(number), "okey": _dotted(number)}
    expect = _expect_data(port, "tunnel", {"local": here, "remote": there} | keyed)
    return _end(lab, port, outer, words, (), (expect,))


def _dotted(number: int) -> str:
    """Return a key in the notation of `ip`."""
    return ".".join(str(byte) for byte in number.to_bytes(4, "big"))


def _wireguard(lab: Lab, topology: Topology, port: Port, others: list[Port], outer: Outer) -> Resource:
    words: list[str] = ["wg", "set", port.name, "listen-port", str(_listened(lab, port.link))]
    words += ["private-key", "/dev/stdin"]
    shown: dict[str, list[str]] = {"endpoints": [], "allowed-ips": []}
    for other in others:
        key, far = public_key(other.ref), outer[other.ref].address
        address = f"[{far}]" if ":" in far else far
        endpoint = f"{address}:{_listened(lab, port.link)}"
        allowed = EVERYTHING if len(others) == 1 else ",".join(_behind(topology, port, other))
        words += ["peer", key, "endpoint", endpoint, "allowed-ips", allowed]
        shown["endpoints"].append(f"{key} {endpoint}")
        shown["allowed-ips"].append(f"{key} {allowed.replace(',', ' ')}")
    script = f"echo {private_key(port.ref)} | {join(words)}"
    reads = {what: " ".join(sorted(lines)) for what, lines in shown.items()}
    reads["public-key"] = public_key(port.ref)
    expect = tuple(
        Expectation(
            Reading(Command(("wg", "show", port.name, what), port.netns), Lines()),
            text,
            f"{what} of {port.ref}",
        )
        for what, text in reads.items()
    )
    more = (Run(Command(("sh", "-c", script), port.netns)),)
    return _end(lab, port, outer, ("type", "wireguard"), more, expect)


def _listened(lab: Lab, link: str) -> int:
    return WIREGUARD_PORT + number_of(lab, link) - 1


def _behind(topology: Topology, port: Port, other: Port) -> Iterator[str]:
    """Yield the addresses of a peer, and the networks behind it."""
    own = [one for point in topology.endpoints(other.ref) for one in point.each()]
    for point in own:
        yield f"{point.address}/{128 if ':' in point.address else 32}"
    gateways = {point.address for point in own}
    for route in topology.routes():
        if route.machine == port.machine and route.gateway in gateways:
            yield route.destination


def _bond(lab: Lab, topology: Topology, port: Port) -> Resource:
    """Return a bond; each member is taken down and added, and the kernel brings the member up."""
    link = lab.links[port.link]
    found = {one.ref: one for one in topology.ports()}
    parts = [found[ref] for ref in carriers(lab, port.link, port.machine)]
    options = ["mode", str(link.bond), "miimon", "100"]
    options += ["xmit_hash_policy", link.hash] if link.hash is not None else []
    options += ["lacp_rate", "fast"] if link.bond == "802.3ad" else []
    mac = mac_of(lab, port.ref)
    add = (
        "ip",
        "link",
        "add",
        "dev",
        port.name,
        *(("address", mac) if mac else ()),
        "type",
        "bond",
        *options,
    )
    runs = [Run(Command(add, port.netns), Command(("ip", "link", "del", "dev", port.name), port.netns))]
    for part in parts:
        base = ("ip", "link", "set", "dev", part.interface)
        back = (Command((*base, word), port.netns) for word in ("up", "nomaster"))
        runs.append(Run(Command((*base, "down"), port.netns), next(back)))
        runs.append(Run(Command((*base, "master", port.name), port.netns), next(back)))
    runs.append(Run(Command(("ip", "link", "set", "dev", port.name, "up"), port.netns)))
    return Resource(
        key=base_of(lab, port),
        machine=port.machine,
        kernel=port.kernel,
        needs=(*port_dependencies(lab, port), *(place_of(lab, part) for part in parts)),
        actions=tuple(runs),
        expect=tuple(_expect_bond(lab, port, parts)),
    )


def _expect_bond(lab: Lab, port: Port, parts: list[Port]) -> Iterator[Expectation]:
    link = lab.links[port.link]
    yield expect_interface(port.netns, Interface(port.name, "kind"), "bond", f"kind of {port.ref}")
    yield expect_interface(port.netns, Interface(port.name, "carrier"), "up", f"carrier of {port.ref}")
    wanted = {"mode": str(link.bond)} | ({"xmit_hash_policy": link.hash} if link.hash is not None else {})
    yield _expect_data(port, "bond", wanted)
    for part in parts:
        what = f"bond of {part.ref}"
        yield expect_interface(port.netns, Interface(part.interface, "master"), port.name, what)
    if link.bond == "802.3ad":
        reading = Reading(show_interfaces(port.netns), LinkData(port.name, ("ad_info.num_ports",)))
        what = f"ports that agree in {port.ref}"
        yield Expectation(reading, f"ad_info.num_ports {len(parts)}", what, patience_ns=BOND_PATIENCE_NS)


def private_key(name: str) -> str:
    """Return the private key of a name, in base64."""
    return b64encode(
        _clamped(blake2b(name.encode(), digest_size=32, person=b"iolab wireguard").digest())
    ).decode()


def public_key(name: str) -> str:
    """Return the public key of a name, in base64."""
    secret = _clamped(blake2b(name.encode(), digest_size=32, person=b"iolab wireguard").digest())
    return b64encode(multiplied(secret, BASE_POINT)).decode()


def _clamped(secret: bytes) -> bytes:
    """Return a secret clamped for the curve: a multiple of 8 with the highest bit set."""
    return bytes([secret[0] & 248, *secret[1:31], (secret[31] & 127) | 64])


def multiplied(secret: bytes, point: int) -> bytes:
    """Return the u-coordinate of a point multiplied by a clamped secret (Montgomery ladder)."""
    scalar = int.from_bytes(secret, "little")
    x2, z2, x3, z3 = 1, 0, point, 1
    for bit in reversed(range(255)):
        if scalar >> bit & 1:
            x2, z2, x3, z3 = _step(x2, z2, x3, z3, point)
        else:
            x3, z3, x2, z2 = _step(x3, z3, x2, z2, point)
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


def _step(x2: int, z2: int, x3: int, z3: int, point: int) -> tuple[int, int, int, int]:
    """Return the sum and the double of the points in one step of the ladder; the sum is first, as for a set bit."""
    plus, minus, other_plus, other_minus = x3 + z3, x3 - z3, x2 + z2, x2 - z2
    doubled_plus, doubled_minus = plus * plus % PRIME, minus * minus % PRIME
    difference = doubled_plus - doubled_minus
    left, right = other_minus * plus % PRIME, other_plus * minus % PRIME
    sum_x, sum_z = (left + right) ** 2 % PRIME, point * (left - right) ** 2 % PRIME
    double_x = doubled_plus * doubled_minus % PRIME
    double_z = difference * (doubled_plus + A24 * difference) % PRIME
    return sum_x, sum_z, double_x, double_z
