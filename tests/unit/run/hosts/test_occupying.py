"""A host is taken for a lab: at once, after waiting for another lab, or not; and what is said as its agent ends."""

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

HELD: dict[str, Any] = {"holders": [{"pid": 7, "lab": "a.yaml", "resources": [], "stopped": False}]}
SHORTLY: dict[str, Any] = {"holders": []}


class Asked:
    """An agent that refuses the first requests for a lease, each with its reason."""

    def __init__(self, *refusals: dict[str, Any], leased: Leased | None = None) -> None:
        self.refusals, self.leased = list(refusals), leased or Leased(number=1, ended=(), undone=0)

    def lease(self, _lab: str, _resources: Sequence[Resource]) -> Leased:
        """See Agent."""
        if self.refusals:
            raise Refused("lease.take", -32003, "eth1: it is in use", self.refusals.pop(0))
        return self.leased


def occupied(agent: Asked, limit_s: float = 0.0) -> list[str]:
    """Take the host; return what is said."""
    said: list[Text] = []
    occupy(cast("Agent", agent), Waiting("b.yaml", limit_s, said.append))
    return [str(one) for one in said]


def test_a_free_host_is_taken_without_a_word() -> None:
    """Nothing was waited for, nothing undone."""
    assert occupied(Asked()) == []


def test_a_held_host_is_refused_with_its_holder() -> None:
    """And with what to do."""
    with pytest.raises(UnsupportedError, match=r"in use by a.yaml \(agent process 7\).*--wait 10m"):
        occupied(Asked(HELD))


def test_a_held_host_is_waited_for_and_that_is_said_once_in_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is taken as soon as it is free."""
    monkeypatch.setattr(host_agent, "ASKED_EVERY_S", 0.001)
    (line,) = occupied(Asked(HELD, HELD, SHORTLY, HELD), limit_s=20)
    assert line == "waiting up to 20 s for this host, which is in use by a.yaml (agent process 7)"


def test_waiting_ends_with_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the other lab is asked for."""
    monkeypatch.setattr(host_agent, "ASKED_EVERY_S", 0.001)
    with pytest.raises(UnsupportedError, match="in use by"):
        occupied(Asked(*[HELD] * 10_000), limit_s=0.02)


def test_what_cannot_be_undone_is_not_waited_for() -> None:
    """Nobody holds it: only a person can help."""
    with pytest.raises(UnsupportedError, match="eth1: it is in use; undo the remaining changes by hand"):
        occupied(Asked({"journals": ["1-2"]}), limit_s=20)


def test_what_was_ended_and_undone_first_is_said() -> None:
    """The owner of that lab may ask."""
    said = occupied(Asked(leased=Leased(number=3, ended=(7,), undone=13)))
    assert said == [
        "this host: ended a lab whose agent was stopped (process 7)",
        "this host: undid 13 changes of a killed lab",
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            KeyboardInterrupt(),
            "interrupted; during shutdown, the agent ended; to undo the remaining changes, run ",
        ),
        (
            AgentLost("", "it is gone; run `iolab clean`"),
            "it is gone; run `iolab clean`; during shutdown, the agent ",
        ),
    ],
)
def test_what_to_do_after_an_agent_that_ended_badly_is_said_once(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, said: str
) -> None:
    """Also where the error before it has no words."""
    agent = SimpleNamespace(close=lambda: "ended")
    monkeypatch.setattr(host_agent, "_agent_here", lambda: agent)
    with pytest.raises(AgentError) as caught, open_agent():
        raise error
    assert str(caught.value).startswith(said)
    assert str(caught.value).count("iolab clean") == 1
