"""Extract one value from the output of `ip -j`, `tc` and `ethtool`, or from a kernel setting. Pure.

Each kind of value has a type; those of tc are in `shaping`, those of disks in `disks`.
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
    """Name of the interface."""
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
    """carrier: up or down; bridging: forwarding, disabled, ...; lower, mode: of a macvtap; address, address6: IPv4
    or non-link-local IPv6 addresses with prefix length, separated by commas."""


@frozen
class LinkData:
    """Kind-specific attributes of an interface from `ip -j -d`, as words: "id 5 remote 198.18.0.2"."""

    name: str
    """Name of the interface."""
    keys: tuple[str, ...]
    """Keys in `ip -j -d`, with dots between the levels; for IPv6, remote6 is read as remote."""


@frozen
class Lines:
    """The sorted lines of a text, with white space normalised."""

    only: str = ""
    """Prefix of the lines to keep; empty: all lines."""
    words: tuple[int, ...] = ()
    """Indices of the words to keep in each line, from 0; empty: all words."""


@frozen
class HasAddress:
    """An address of an interface, from `ip -j -d addr show`; the address is returned unchanged if the interface has
    it."""

    name: str
    """Name of the interface."""
    address: str
    """Address with prefix length."""


@frozen
class InterfaceByMac:
    """The name of the interface with a MAC address, from `ip -j -d addr show`."""

    mac: str
    """MAC address; VLAN interfaces and bridges that inherit it are ignored."""


@frozen
class VirtualFunction:
    """The permissions of a NIC's virtual function, from `ip -j -d link show`: "trust on spoofchk off"."""

    card: str
    """Interface of the NIC."""
    number: int
    """Number of the virtual function."""


@frozen
class Features:
    """Offloads of an interface, from `ethtool --json -k NAME`, in the syntax of `ethtool -K`: "tso off"."""

    interface: str
    """Name of the interface."""
    names: tuple[str, ...]
    """Short names, as in `ethtool -K`."""


@frozen
class Gateway:
    """The next hop of a route, from `ip -j -4 route show` or `ip -j -6 route show`."""

    destination: str
    """Destination network with prefix length."""
    among: str = ""
    """Expected next hop of a route with several next hops: the expected one is returned if it is among them."""


@frozen
class Neighbour:
    """The state of a neighbour entry, from `ip -j neigh show`: permanent, reachable, ..."""

    address: str
    """Address of the neighbour."""


ENDED = "ended"
"""Key in the agent's answer with the reason why a reference device or an emulated link has stopped."""


@frozen
class Running:
    """Whether a reference device or an emulated link runs: "running", or the reason why it stopped."""


@frozen
class PacedWay:
    """The pacer of an emulated link as reported by the agent, with sorted keys."""

    way: int
    """0 or 1: the pacer of the first or second end."""


@frozen
class Value:
    """The value of a kernel setting, with white space normalised."""


@frozen
class LastName:
    """The last component of a path, as in the output of `readlink`: the PCI address of a device."""


@frozen
class Driver:
    """The kernel driver of an interface, from `ethtool -i NAME`."""


@frozen
class HardwareSettings:
    """Current settings of a NIC, from `ethtool -g NAME` or `-l NAME`, in the syntax of the set command: "rx 256"."""

    names: tuple[Literal["rx", "tx", "combined"], ...]
    """Names of the settings in `ethtool -G` and `-L`."""


@frozen
class CardSettings:
    """Current settings of a NIC, from `ethtool -c NAME` or `-a NAME`, in the set command's syntax: "rx-usecs 3"."""

    labels: tuple[tuple[str, str], ...]
    """Option that sets a value, and label that shows it; all labels must be in the output."""


@frozen
class GuestThreads:
    """The affinities of a running guest's threads.

    From JSON: {"status": "running", "vcpus": [[1], [2]], "carriers": [[0, 3], [0, 3]]}. vcpus has the allowed CPUs of
    each virtual CPU's thread, in order; carriers has those of every thread that carries frames (vhost, the hypervisor's
    main loop and workers).
    """

    field: Literal["status", "vcpus", "carriers"]
    """vcpus: "1 2", several CPUs of one thread as "0,1"; carriers: the same, without duplicates."""


How = (
    Interface | LinkData | Lines | HasAddress
    | InterfaceByMac | VirtualFunction | Features | Gateway | Qdisc | QdiscRate | ShaperClass
    | LeafQdisc | Filters | Neighbour | Running | PacedWay
    | Value | LastName | Driver | HardwareSettings | CardSettings | GuestThreads
    | BlockDevice
)  # fmt: skip
"""A value to extract from a text."""


def value_shown(how: How, text: str) -> str | None:
    """Return the value in `text`; None if the text does not contain it or is malformed."""
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
"""Parsed JSON output of the tools."""


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
    """Whether an address is usable, and not link-local."""
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
    """Return all requested settings; None if the NIC lacks one."""
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
"""Path of each attribute in the kind-specific data of `ip -d`."""
FEATURE_NAMES = {
    "rx": "rx-checksumming",
    "tx": "tx-checksumming",
    "sg": "tx-scatter-gather",
    "tso": "tx-tcp-segmentation",  # the line of a feature group remains "on" while any member is on
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
}
"""Name in `ethtool -k` of each short name in `ethtool -K`."""
