"""Methods that send and receive frames: opening ports, running trials."""

from collections.abc import Mapping
from dataclasses import field

from iolab.agent import messages
from iolab.agent.client import REPLY_SLACK_S, Agent
from iolab.agent.decoding import decode
from iolab.agent.messages import Json, PortOpened, TrafficOpened
from iolab.frozen import frozen
from iolab.locale import Phrase
from iolab.units import NS_PER_S

PIECE_BYTES = 1 << 20
"""Of a recording in one message."""


@frozen(kw_only=True)
class TrafficRan(messages.TrafficRan):
    """A trial that was run."""

    raw: Json = field(default=None, compare=False)
    """The answer, whole."""


def open_ports(agent: Agent, params: Mapping[str, Json]) -> tuple[PortOpened, ...]:
    """Open a set of ports."""
    return agent.ask(TrafficOpened, "traffic.open", params).ports


def give_recording(agent: Agent, of: str, name: str, entries: bytes) -> None:
    """Give a set of ports frames that are sent in place of those of our own, piece by piece."""
    for begin in range(0, len(entries), PIECE_BYTES):
        piece = entries[begin : begin + PIECE_BYTES]
        params = {
            "id": of,
            "recording": name,
            "first": begin == 0,
            "last": begin + PIECE_BYTES >= len(entries),
            "hex": piece.hex(),
        }
        agent.call("traffic.record", params)


def run_traffic(agent: Agent, params: Mapping[str, Json]) -> TrafficRan:
    """Run one trial to its drained barrier."""
    patience_s = (params["duration_ns"] + params["drain"]["timeout_ns"]) / NS_PER_S + REPLY_SLACK_S
    raw = agent.call("traffic.run", params, patience_s)
    ran = decode(TrafficRan, raw, Phrase("agent.result-of", method="traffic.run"), agent=agent.name)
    return TrafficRan(
        begin_ns=ran.begin_ns, end_ns=ran.end_ns, senders=ran.senders, receivers=ran.receivers, raw=raw
    )
