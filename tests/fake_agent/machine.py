"""Peers of a fake agent: relays to other transports in memory, scratch folders, and the end of a machine.

A path stands for a socket or terminal when the simulated host has something `behind` it.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from iolab.agent.messages import Json
from iolab.agent.transport import Transport
from iolab.errors import AgentError

Emit = Callable[[Json], None]
Behind = Callable[[], Transport]
"""Connects to the peer of a path; each relay has a separate connection."""
STATE_DIR = "/run/iolab"


@dataclass
class FakeRelays:
    """The relays of one fake agent."""

    behind: dict[str, Behind]
    """Peers by path."""
    emit: Emit
    """Receives messages to the controller."""
    opened: dict[str, Transport] = field(default_factory=dict)
    """Open relays by ID."""

    def open(self, relay: str, path: str) -> bool:
        """Open a relay; return whether there is a peer."""
        if path not in self.behind:
            return False
        transport = self.opened[relay] = self.behind[path]()
        threading.Thread(target=self._pass_on, args=(relay, transport), daemon=True).start()
        return True

    def send(self, relay: str, message: Json) -> bool:
        """Pass a message to the peer; return whether there is one."""
        if relay not in self.opened:
            return False
        try:
            self.opened[relay].send(json.dumps(message))
        except AgentError:
            return False
        return True

    def close(self, relay: str, reason: str = "closed") -> bool:
        """Close a relay; return whether it was open."""
        transport = self.opened.pop(relay, None)
        if transport is None:
            return False
        transport.close(0)
        self._notify("relay.ended", {"id": relay, "reason": reason, "dropped": 0})
        return True

    def close_all(self) -> None:
        """Close every relay."""
        for relay in list(self.opened):
            self.close(relay)

    def _pass_on(self, relay: str, transport: Transport) -> None:
        while (line := transport.receive()) is not None:
            try:
                message = json.loads(line)
            except json.JSONDecodeError:
                message = None
            if isinstance(message, dict):
                self._notify("relay.received", {"id": relay, "message": message})
            else:
                self._notify("relay.noise", {"id": relay, "text": line.rstrip("\n"), "dropped": 0})
        if self.opened.get(relay) is transport:
            del self.opened[relay]
            reason = "the other side closed it"
            self._notify("relay.ended", {"id": relay, "reason": reason, "dropped": 0})

    def _notify(self, method: str, params: Json) -> None:
        self.emit({"jsonrpc": "2.0", "method": method, "params": params})
