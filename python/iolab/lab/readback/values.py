"""Take one value from what `ip -j`, `tc`, `ethtool` or a kernel setting shows. Pure.

Each value is asked for by a type of its own; those of tc are in `shaping`, those of disks in `disks`.
"""

import json
import re
from functools import reduce
from operator import getitem
from typing import Any, Literal

from iolab.frozen import frozen
from iolab.lab.readback.disks import BlockDevice, block_device
from iolab.lab.readback.shaping import Filters, LeafQdisc, Qdisc, QdiscRate, ShaperClass, shown_by_tc


@frozen
class Interface:
    """An attribute of an interface, from `ip -j -d addr show`."""

    name: str
    """Interface name."""
    attribute: Literal[
        "mtu",
        "carrier",
        "master",
        "bridging",
        "kind",
        "vlan",
        "lower",
        "mode",
        "address",
        "address6",
        "mac",
        "gso_max_segs",
    ]
    """carrier: up or down; bridging: forwarding, disabled, ...; lower, mode: of a macvtap; address,
    address6: IPv4, or IPv6 but link-local ones, with prefix length, by commas."""


@frozen
class LinkData:
    """What `ip -j -d` shows of an interface's own kind, as words: "id 5 remote 198.18.0.2"."""

    name: str
    """Interface name."""
    keys: tuple[str, ...]
    """As `ip -j -d` has them, with dots between the levels; of IPv6 it shows remote6 for remote."""


@frozen
class Lines:
    """Lines of a text, sorted, each with white space made single."""

    only: str = ""
    """Those that begin so; empty: all."""
    words: tuple[int, ...] = ()
    """The words of each line that count, from 0; empty: all."""


@frozen
class HasAddress:
    """One of perhaps several addresses of an interface, from `ip -j -d addr show`; as it is where it is there."""

    name: str
    """Interface name."""
    address: str
    """With prefix length."""


@frozen
class InterfaceByMac:
    """The name of the interface that has an Ethernet address, from `ip -j -d addr show`."""

    mac: str
    """The address; VLAN interfaces and bridges that took it over do not count."""


@frozen
class VirtualFunction:
    """What a card lets a virtual function do, from `ip -j -d link show`: "trust on spoofchk off"."""

    card: str
    """Interface of the card."""
    number: int
    """Of the function."""


@frozen
class Features:
    """Offloads of an interface, from `ethtool --json -k NAME`, as words for `ethtool -K`: "tso off"."""

    interface: str
    """Interface name."""
    names: tuple[str, ...]
    """Short names as `ethtool -K` takes them."""


@frozen
class Gateway:
    """Next hop of a route, from `ip -j -4 route show`, or -6."""

    destination: str
    """Network with prefix length."""
    among: str = ""
    """Of a route with several next hops this one is shown, if it is one of them: others were added beside it."""


@frozen
class Neighbour:
    """State of a neighbour entry, from `ip -j neigh show`: permanent, reachable, ..."""

    address: str
    """Of the neighbour."""


ENDED = "ended"
"""Where stands why a reference device or a wire runs no more."""


@frozen
class Running:
    """Whether a reference device or a wire runs: "running", or why it does not."""


@frozen
class PacedWay:
    """The pacer that a wire runs, from what its agent says of it; its keys in order."""

    way: int
    """0 or 1: of its first or second end."""


@frozen
class Value:
    """A kernel setting's value, white space made single."""


@frozen
class LastName:
    """The last name of a path, as `readlink` shows it: the PCI address of a device."""


@frozen
class Driver:
    """The kernel driver of an interface, from the text of `ethtool -i NAME`."""


@frozen
class HardwareSettings:
    """What a card is set to now, from the text of `ethtool -g NAME` or `-l NAME`, as words to set it: "rx 256"."""

    names: tuple[Literal["rx", "tx", "combined"], ...]
    """What to take, as `ethtool -G` and `-L` call it."""


@frozen
class CardSettings:
    """What a card is set to, from the text of `ethtool -c NAME` or `-a NAME`, as words to set it: "rx-usecs 3"."""

    labels: tuple[tuple[str, str], ...]
    """Word that sets it and label that shows it; all must be shown."""


@frozen
class GuestThreads:
    """A running guest, from JSON: {"status": "running", "vcpus": [[1], [2]], "carriers": [[0, 3], [0, 3]]}.

    vcpus has the allowed CPUs of each virtual CPU's thread, in order; carriers those of every thread that carries
    frames (vhost, the hypervisor's main loop and workers).
    """

    field: Literal["status", "vcpus", "carriers"]
    """vcpus: "1 2", several CPUs of one as "0,1"; carriers: the same, equal ones once."""


How = (
    Interface | LinkData | Lines | HasAddress
    | InterfaceByMac | VirtualFunction | Features | Gateway | Qdisc | QdiscRate | ShaperClass
    | LeafQdisc | Filters | Neighbour | Running | PacedWay
    | Value | LastName | Driver | HardwareSettings | CardSettings | GuestThreads
    | BlockDevice
)  # fmt: skip
"""What to take from a text."""


def value_shown(how: How, text: str) -> str | None:
    """Return the value that `text` shows; None where it shows nothing of it or cannot be understood."""
    try:
        match how:
            case Interface():
                return _interface(how, json.loads(text))
            case LinkData():
                return _link_data(how, json.loads(text))
            case Lines():
                return _lines(how, text)
            case Features():
                return _features(how, json.loads(text))
            case Gateway():
                return _gateway(how, json.loads(text))
            case Qdisc() | QdiscRate() | LeafQdisc() | ShaperClass() | Filters():
                return shown_by_tc(how, text)
            case (
                Neighbour()
                | Running()
                | PacedWay()
                | Value()
                | LastName()
                | HasAddress()
                | InterfaceByMac()
                | VirtualFunction()
            ):
                return _simple(how, text)
            case Driver() | HardwareSettings() | CardSettings() | BlockDevice() | GuestThreads():
                return _hardware_or_guest(how, text)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError):
        return None


Rows = list[dict[str, Any]]
"""What the tools print with -j: the edge where their JSON is parsed."""


def _row(rows: Rows, key: str, value: str) -> dict[str, Any] | None:
    return next((row for row in rows if row.get(key) == value), None)


def _interface(how: Interface, rows: Rows) -> str | None:
    row = _row(rows, "ifname", how.name)
    if row is None:
        return None
    match how.attribute:
        case "mtu" | "gso_max_segs" as attribute:
            return str(row[attribute])
        case "carrier":
            return "up" if {"UP", "LOWER_UP"} <= set(row["flags"]) else "down"
        case "mac":
            return str(row["address"])
        case "master":
            return str(row.get("master", ""))
        case "lower":
            return str(row["link"])
        case "kind" | "vlan" | "mode" | "bridging" as attribute:
            return str(reduce(getitem, LINK_INFO[attribute], row["linkinfo"]))
        case "address" | "address6" as attribute:
            family = "inet6" if attribute == "address6" else "inet"
            own = (info for info in row["addr_info"] if info["family"] == family and _is_ready(info))
            return ",".join(sorted(f"{info['local']}/{info['prefixlen']}" for info in own))


def _is_ready(info: dict[str, Any]) -> bool:
    """Tell whether an address can be used, and is more than of its link."""
    return not (info["family"] == "inet6" and (info["scope"] == "link" or "tentative" in info))


def _link_data(how: LinkData, rows: Rows) -> str | None:
    row = _row(rows, "ifname", how.name)
    if row is None:
        return None
    data = row["linkinfo"]["info_data"]
    found = ((key, key.split(".") if key in data or "." in key else [f"{key}6"]) for key in how.keys)
    return " ".join(f"{key} {reduce(getitem, words, data)}" for key, words in found)


def _lines(how: Lines, text: str) -> str:
    lines = (line.split() for line in text.splitlines() if line.startswith(how.only))
    return " ".join(sorted(" ".join([line[n] for n in how.words] if how.words else line) for line in lines))


def _virtual_function(how: VirtualFunction, rows: Rows) -> str | None:
    row = _row(rows, "ifname", how.card) or {}
    own = next((one for one in row.get("vfinfo_list", []) if one["vf"] == how.number), None)
    if own is None:
        return None
    return " ".join(f"{name} {'on' if own[name] else 'off'}" for name in ("trust", "spoofchk"))


def _features(how: Features, rows: Rows) -> str | None:
    row = _row(rows, "ifname", how.interface)
    if row is None:
        return None
    states = ((name, row[FEATURE_NAMES[name]]["active"]) for name in how.names)
    return " ".join(f"{name} {'on' if active else 'off'}" for name, active in states)


def _gateway(how: Gateway, rows: Rows) -> str | None:
    row = _row(rows, "dst", how.destination)
    if row is None or "nexthops" not in row:
        return None if row is None else str(row["gateway"])
    gateways = [str(one["gateway"]) for one in row["nexthops"] if "gateway" in one]
    return how.among if how.among in gateways else ", ".join(gateways)


def _simple(
    how: Neighbour | Running | PacedWay | Value | LastName | HasAddress | InterfaceByMac | VirtualFunction,
    text: str,
) -> str | None:
    match how:
        case HasAddress():
            attribute: Literal["address", "address6"] = "address6" if ":" in how.address else "address"
            addresses = _interface(Interface(how.name, attribute), json.loads(text)) or ""
            return how.address if how.address in addresses.split(",") else addresses or None
        case InterfaceByMac(mac):
            rows = (row for row in json.loads(text) if row.get("address") == mac and "linkinfo" not in row)
            return next((str(row["ifname"]) for row in rows), None)
        case VirtualFunction():
            return _virtual_function(how, json.loads(text))
        case Neighbour():
            row = _row(json.loads(text), "dst", how.address)
            return None if row is None else " ".join(row["state"]).lower()
        case Running():
            said = json.loads(text)
            return "running" if {"passed_frames", "ways"} & set(said) else said.get(ENDED)
        case PacedWay(way):
            stages = (one for one in json.loads(text)["does"][way] if one["kind"] == "pacer")
            return next((json.dumps(one, sort_keys=True) for one in stages), None)
        case Value():
            return " ".join(text.split())
        case LastName():
            return text.strip().rpartition("/")[2] or None


def _hardware_or_guest(
    how: Driver | HardwareSettings | CardSettings | BlockDevice | GuestThreads, text: str
) -> str | None:
    match how:
        case BlockDevice():
            return block_device(how, text)
        case CardSettings():
            return _card_settings(how, text)
        case Driver():
            found = re.search(r"^driver:\s*(\S+)", text, re.MULTILINE)
            return found[1] if found else None
        case HardwareSettings():
            now = text.partition("Current hardware settings:")[2]
            values = (
                (name, re.search(rf"^{name}:\s*(\d+)\s*$", now, re.MULTILINE | re.IGNORECASE))
                for name in how.names
            )
            return " ".join(f"{name} {found[1]}" for name, found in values if found) or None
        case GuestThreads("status"):
            return str(json.loads(text)["status"])
        case GuestThreads(field):
            sets = [",".join(str(int(cpu)) for cpu in sorted(one)) for one in json.loads(text)[field]]
            return " ".join(sets if field == "vcpus" else dict.fromkeys(sets))


def _card_settings(how: CardSettings, text: str) -> str | None:
    """Return every setting that is asked for; None where the card lacks one."""
    shown = text.replace("Adaptive RX:", "adaptive-rx:").replace("  TX:", "\nadaptive-tx:")
    lines = (line.partition(":") for line in shown.splitlines())
    values = {label.strip(): value.strip() for label, _, value in lines}
    found = [(word, values.get(label, "n/a")) for word, label in how.labels]
    if any(value in ("n/a", "") for _, value in found):
        return None
    return " ".join(f"{word} {value}" for word, value in found)


LINK_INFO = {
    "kind": ("info_kind",), "vlan": ("info_data", "id"), "mode": ("info_data", "mode"),
    "bridging": ("info_slave_data", "state"),
}  # fmt: skip
"""Attribute to where `ip -d` shows it in what it knows of the kind of an interface."""
FEATURE_NAMES = {
    "rx": "rx-checksumming",
    "tx": "tx-checksumming",
    "sg": "tx-scatter-gather",
    "tso": "tx-tcp-segmentation",  # the group's own line stays "on" while any member of it is
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
}
"""Short name for `ethtool -K` to the name that `ethtool -k` shows."""
