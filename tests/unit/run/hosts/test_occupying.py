"""Leases of a host: at once, after waiting for another lab, or refused; and messages at the end of its agent."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from iolab.agent.client import Agent, AgentLost
from iolab.agent.messages import Leased, Resource
from iolab.errors import AgentError, Refused, UnsupportedError
from iolab.locale import Text
from iolab.run.hosts import host_agent
from iolab.run.hosts.host_agent import Waiting, occupy, open_agent

IN_USE = [{"name": "cpu:0", "shared": False}, {"name": "port:eth1", "shared": False}]
HELD: dict[str, Any] = {"holders": [{"pid": 7, "lab": "a.yaml", "resources": IN_USE, "stopped": False}]}
SHORTLY: dict[str, Any] = {"holders": []}


class Asked:
    """An agent that refuses the first lease requests, each with its reason."""

    def __init__(self, *refusals: dict[str, Any], leased: Leased | None = None) -> None:
        self.refusals, self.leased = list(refusals), leased or Leased(number=1, ended=(), undone=0)

    def lease(self, _lab: str, _resources: Sequence[Resource]) -> Leased:
        """See Agent."""
        if self.refusals:
            raise Refused("lease.take", -32003, "eth1: it is in use", self.refusals.pop(0))
        return self.leased


def occupied(agent: Asked, limit_s: float = 0.0) -> list[str]:
    """Lease the host; return the messages."""
    said: list[Text] = []
    occupy(cast("Agent", agent), Waiting("b.yaml", limit_s, said.append))
    return [str(one) for one in said]


def test_free_host_is_leased_without_printing_a_message() -> None:
    """Wait for nothing, and undo nothing."""
    assert occupied(Asked()) == []


def test_leased_host_is_refused_and_its_holder_is_named() -> None:
    """Add a remedy."""
    with pytest.raises(
        UnsupportedError, match=r"a.yaml \(agent process 7\) uses cpu:0 and port:eth1;.*--wait 10m"
    ):
        occupied(Asked(HELD))


def test_waiting_for_a_leased_host_is_reported_at_most_every_half_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lease it as soon as it is free."""
    monkeypatch.setattr(host_agent, "ASKED_EVERY_S", 0.001)
    (line,) = occupied(Asked(HELD, HELD, SHORTLY, HELD), limit_s=20)
    assert (
        line == "waiting up to 20 s for this host because a.yaml (agent process 7) uses cpu:0 and port:eth1"
    )


def test_waiting_for_a_leased_host_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop however often the other lab is reported."""
    monkeypatch.setattr(host_agent, "ASKED_EVERY_S", 0.001)
    with pytest.raises(UnsupportedError, match="uses cpu:0"):
        occupied(Asked(*[HELD] * 10_000), limit_s=0.02)


def test_run_does_not_wait_for_a_host_with_changes_that_cannot_be_undone() -> None:
    """Report that only a person can help."""
    with pytest.raises(UnsupportedError, match="eth1: it is in use; undo the remaining changes by hand"):
        occupied(Asked({"journals": ["1-2"]}), limit_s=20)


def test_ended_labs_and_undone_changes_are_reported_when_a_host_is_leased() -> None:
    """Inform the owner of that lab."""
    said = occupied(Asked(leased=Leased(number=3, ended=(7,), undone=13)))
    assert said == [
        "this host: ended a lab whose agent, process 7, was suspended",
        "this host: undid 13 changes made by a killed lab",
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            KeyboardInterrupt(),
            "interrupted; shutting down the agent: ended; to undo the remaining changes, run ",
        ),
        (
            AgentLost("", "it is gone; run `iolab clean`"),
            "it is gone; run `iolab clean`; shutting down the agent: ",
        ),
    ],
)
def test_cleanup_advice_after_a_killed_agent_is_given_once(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, said: str
) -> None:
    """Give it after an error without a message, too."""
    agent = SimpleNamespace(close=lambda: "ended")
    monkeypatch.setattr(host_agent, "_agent_here", lambda: agent)
    with pytest.raises(AgentError) as caught, open_agent():
        raise error
    assert str(caught.value).startswith(said)
    assert str(caught.value).count("iolab clean") == 1


def test_name_of_another_users_lab_is_printed_on_one_line() -> None:
    """Treat the name as untrusted, because it is text from a different user or host."""
    holder = {"pid": 7, "lab": "a\niolab: all is well\x1b[31m" + "x" * 500, "resources": [], "stopped": False}
    with pytest.raises(UnsupportedError) as refused:
        occupied(Asked({"holders": [holder]}))
    assert "a iolab: all is well\\x1b[31mxxx" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400
