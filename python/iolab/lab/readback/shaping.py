"""Parse tc's output on shaping: root qdiscs, htb classes and u32 filters. Pure.

`tc -j` prints JSON except for `tc class show`, whose text is parsed (iproute2 6.1).
"""

import json
import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Literal

from iolab.frozen import frozen

QdiscField = Literal["kind", "default", "burst_bytes", "limit_bytes", "latency_us"]
ClassField = Literal["rate_bps", "ceil_bps", "burst_bytes", "cburst_bytes", "quantum_bytes"]

Rows = list[dict[str, Any]]
"""Parsed JSON output of `tc -j`."""


@frozen
class Qdisc:
    """A field of an interface's root qdisc, from `tc -j qdisc show`."""

    interface: str
    """Name of the interface."""
    field: QdiscField
    """Name of the field; None is returned if this kind of qdisc does not have the field."""


@frozen
class QdiscRate:
    """A rate of an interface's root qdisc [bit/s], from `tc -j qdisc show`, which prints bytes/s."""

    interface: str
    """Name of the interface."""
    option: str
    """Name in tc: rate, maxrate; None is returned if this kind of qdisc does not have the rate."""


@frozen
class ShaperClass:
    """A value of an htb class, from the text of `tc -d class show dev NAME`."""

    classid: str
    """Class ID, such as 1:10."""
    field: ClassField
    """Name of the value."""


@frozen
class LeafQdisc:
    """The kind of the qdisc below a class, from `tc -j qdisc show`."""

    interface: str
    """Name of the interface."""
    classid: str
    """Class ID, such as 1:10."""


@frozen
class Filters:
    """All u32 filters by preference, from `tc -j filter show dev NAME`: "198.18.0.1>*=1:10", separated by commas."""


def shown_by_tc(how: Qdisc | QdiscRate | LeafQdisc | ShaperClass | Filters, text: str) -> str | None:
    """Return the value in tc's output; None if the output does not contain it."""
    match how:
        case Qdisc():
            return _qdisc(how, text)
        case QdiscRate():
            return _qdisc_rate(how, text)
        case LeafQdisc():
            rows: Rows = json.loads(text)
            own = (row for row in rows if (row.get("dev"), row.get("parent")) == (how.interface, how.classid))
            return next((str(row["kind"]) for row in own), None)
        case ShaperClass():
            return _shaper_class(how, text)
        case Filters():
            return _filters(text)


def _qdisc(how: Qdisc, text: str) -> str | None:
    """Return the requested field of an interface's root qdisc."""
    row = _root(how.interface, text)
    if row is None:
        return None
    options = row.get("options", {})
    match how.field:
        case "kind":
            return str(row["kind"])
        case "default":
            return str(int(options["default"], 16))
        case "burst_bytes":
            return str(options["burst"])
        case "limit_bytes":
            return str(options["limit"])
        case "latency_us":
            return str(options["lat"])


def _qdisc_rate(how: QdiscRate, text: str) -> str | None:
    """Return a rate of an interface's root qdisc."""
    row = _root(how.interface, text)
    return None if row is None else str(row["options"][how.option] * 8)


def _root(interface: str, text: str) -> dict[str, Any] | None:
    rows: Rows = json.loads(text)
    return next((row for row in rows if row.get("dev") == interface and row.get("root")), None)


def _shaper_class(how: ShaperClass, text: str) -> str | None:
    """Return the requested value of a class."""
    line = next((line for line in text.splitlines() if line.split()[2:3] == [how.classid]), "")
    name, unit = how.field.rsplit("_", 1)
    if how.field == "quantum_bytes":  # a plain number of bytes
        words = line.split()
        return words[words.index(name) + 1] if name in words else None
    found = re.search(
        rf"\b{name} (\d+(?:\.\d+)?(?:e\+\d+)?)([KMGT]?)({'bit' if unit == 'bps' else 'b'})\b", line
    )
    if found is None:
        return None
    scale = 1000 if unit == "bps" else 1024
    return str(round(float(found[1]) * scale ** ("KMGT".index(found[2]) + 1 if found[2] else 0)))


def _filters(text: str) -> str:
    """Return the match and the class of each filter."""
    rows: Rows = json.loads(text, object_pairs_hook=_pairs)
    lines: list[tuple[int, str]] = []
    for row in rows:
        options = row.get("options", {})
        if row.get("kind") == "u32" and "flowid" in options:
            source, target = _ends(options.get("match", []), wide=row.get("protocol") == "ipv6")
            where = f"{source}>{target}={options['flowid']}"
            lines.append((row["pref"], where))
    return ",".join(where for _, where in sorted(lines, key=lambda line: line[0]))


def _ends(matches: Sequence[dict[str, Any]], *, wide: bool) -> tuple[str, str]:
    """Return the source and destination that a filter matches; *: any."""
    found = {match["off"]: match for match in matches}
    if not wide:
        ends = (_host(found[at]) if at in found else "*" for at in (SRC_OFFSET, DST_OFFSET))
        return next(ends), next(ends)
    words = ([found[at + 4 * n] for n in range(4) if at + 4 * n in found] for at in IPV6_OFFSETS)
    wide_ends = (_wide_host(four) if four else "*" for four in words)
    return next(wide_ends), next(wide_ends)


def _wide_host(words: Sequence[dict[str, Any]]) -> str:
    """Return an IPv6 address from four matched words; None if the match is incomplete."""
    whole = len(words) == 4 and all(word["mask"] == "ffffffff" for word in words)
    text = "".join(word["value"].zfill(8) for word in words)
    return str(IPv6Address(int(text, 16))) if whole else f"{text}&{','.join(word['mask'] for word in words)}"


def _host(match: dict[str, Any]) -> str:
    address = str(IPv4Address(int(match["value"], 16)))
    return address if match["mask"] == "ffffffff" else f"{address}&{match['mask']}"


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return all pairs of an object as a mapping with a list of all `match` values, because tc repeats this key."""
    found = dict(pairs)
    if "match" in found:
        found["match"] = [value for key, value in pairs if key == "match"]
    return found


SRC_OFFSET, DST_OFFSET = 12, 16
"""Byte offsets of the addresses in the IPv4 header (RFC 791)."""
IPV6_OFFSETS = (8, 24)
"""Byte offsets of the addresses in the IPv6 header (RFC 8200): an address is four words."""
