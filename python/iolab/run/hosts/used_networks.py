"""Which IPv4 networks a computer uses outside of labs: those of its addresses and of its routes."""

import json
from collections.abc import Iterator
from ipaddress import IPv4Network

from iolab.agent.client import Agent
from iolab.agent.decoding import understood
from iolab.agent.messages import Json

ADDRESSES, ROUTES = ("ip", "-j", "-4", "addr"), ("ip", "-j", "-4", "route")
EVERYTHING = ("default", "0.0.0.0/0")


def networks_there(agent: Agent) -> list[dict[str, Json]]:
    """Return the networks that an agent's computer uses, as `Facts.networks` has them."""
    if agent.hello.rootless:  # in its own namespaces it sees none, and can take none away
        return []
    shown = agent.run_all([(argv, None) for argv in (ADDRESSES, ROUTES)])
    with understood(agent.name, "addresses and routes"):
        addresses, routes = (json.loads(one.stdout or "[]") if one.succeeded else [] for one in shown)
        found = dict.fromkeys((*_of_addresses(addresses), *_of_routes(routes)))
    return [{"network": network, "interface": interface} for network, interface in found]


def _of_addresses(addresses: Json) -> Iterator[tuple[str, str]]:
    for card in addresses:
        for one in card.get("addr_info", ()):
            yield str(IPv4Network(f"{one['local']}/{one['prefixlen']}", strict=False)), card["ifname"]


def _of_routes(routes: Json) -> Iterator[tuple[str, str]]:
    for one in routes:
        if one["dst"] not in EVERYTHING:
            yield str(IPv4Network(one["dst"], strict=False)), one.get("dev", "")
