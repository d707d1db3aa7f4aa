"""Digests that name runs, series, cells and classes of hosts in tables, libraries and gates. Pure."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from iolab.store.lines import Identity
from iolab.store.records import TrialRecord

DIGITS = 16
"""Number of hexadecimal digits of a digest that names a series, a cell, a run or a class of hosts."""
_VIRTUAL = frozenset(
    {"veth", "tun", "bridge", "ifb", "dummy", "macvlan", "macvtap", "vxlan", "bonding", "openvswitch"}
)
"""Drivers of interfaces that are not NICs."""


def digest(*parts: object) -> str:
    """Return the digest that names a series, a cell or a class of hosts."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def run_id(of: Identity) -> str:
    """Return the name of a run in a library; the name stays the same when the run is resumed, extended or renamed."""
    return of.first[:DIGITS]


def cell_digest(record: TrialRecord) -> str:
    """Return the name of a trial's resolved cell: its lab and measure, without the block.

    Records of older schemas do not have the digest of lab and measure, so their labels name the cell.
    """
    if record.rest:
        return digest("cell", record.rest, record.direction)
    return digest("labels", record.measure, record.kind, dict(record.cell))


def stable_facts(facts: Mapping[str, Any]) -> dict[str, object]:
    """Return the facts that define a class of hosts: CPU model, kernel, NICs and topology of this host and of hosts
    reached through ssh.

    Frequencies, load, addresses, names, and interfaces without a driver are not included.
    """
    hosts = _mapping(facts.get("hosts"))
    others = {name: {**_of_host(_mapping(each)), "hosts": {}} for name, each in sorted(hosts.items())}
    return {**_of_host(facts), "hosts": others}


def host_class(facts: Mapping[str, Any]) -> str:
    """Return the name of the host class of a run."""
    return digest("host", stable_facts(facts))


def _of_host(facts: Mapping[str, Any]) -> dict[str, object]:
    processors, interfaces = _mapping(facts.get("processors")), facts.get("interfaces")
    nics = [
        str(each.get("driver"))
        for each in (interfaces if isinstance(interfaces, list) else ())
        if isinstance(each, Mapping) and each.get("driver") and each.get("driver") not in _VIRTUAL
    ]
    names = ("cpu_model", "kernel", "architecture", "virtualization", "cpus")
    own = {name: facts.get(name) for name in names}
    own |= {name: processors.get(name) for name in ("smt", "cores", "nodes")}
    return {**own, "nics": sorted(nics)}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
