"""Arbitrary channel input: the reader continues, whole messages arrive, and errors are iolab's own."""

import json
import os
from collections.abc import Iterator
from random import Random

import pytest
from tests.fake_agent.agent import FakeAgent
from tests.unit.run.guests.fake_guests import Line

from iolab.agent.answers import CommandResult, Reading
from iolab.agent.client import ENDED, Agent, Pending
from iolab.agent.decoding import BadAnswer, decode, read_message
from iolab.agent.messages import Histogram, Json, UndoReport
from iolab.agent.relay import RelayedTransport, at_socket
from iolab.errors import AgentError

CASES = int(os.environ.get("IOLAB_CASES", "100000"))
"""Number of lines of garbage; IOLAB_CASES sets a larger number for a long run."""
OURS, OTHERS = 1, 70_000
"""ID of the waiting request, and the ID in damaged lines."""
TRUE_MESSAGES = [
    {"jsonrpc": "2.0", "id": OTHERS, "result": {"now_ns": 5}},
    {"jsonrpc": "2.0", "id": OTHERS, "error": {"code": -32001, "message": "no", "data": {"errno": 2}}},
    {"jsonrpc": "2.0", "method": "relay.received", "params": {"id": "x", "message": {"id": 1, "result": {}}}},
    {"jsonrpc": "2.0", "method": "relay.noise", "params": {"id": "x", "text": "[ 2.1] virtio", "dropped": 3}},
    {"jsonrpc": "2.0", "method": "process.ended", "params": {"id": "x", "exit_status": 0, "end_ns": 7}},
]
VALUES: tuple[Json, ...] = (None, True, -1, 1e308, "", "x", "\ud800", [], {}, [[]], {"id": "x"}, {"a": None})
EXTREMES = (
    "", "{", "[" * 100_000, '{"a":' * 50_000, "9" * 5_000, "1e999", "NaN", '"\\ud800"', "{}", "\x00", "\ufeff{}",
    '{"id":true,"result":{}}', '{"id":1.0,"result":{}}', '{"id":[],"result":{}}', '{"method":{},"params":[]}',
    '{"method":"relay.received","params":{"id":"x"}}', '{"method":"relay.received","params":{"id":"x","message":3}}',
    '{"method":"relay.noise","params":{"id":"x"}}', '{"method":"relay.noise","params":{"id":"x","text":{}}}',
)  # fmt: skip


def damaged_text(chance: Random) -> str:
    """Return a message line with some characters replaced, inserted, removed or duplicated."""
    line = json.dumps(chance.choice(TRUE_MESSAGES))
    for _ in range(chance.randint(1, 4)):
        at, kind = chance.randrange(len(line) + 1), chance.randrange(4)
        letter = chance.choice('{}[]",:\\-.eE+ntf\x00\ufffd ')
        line = (
            line[:at] + letter + line[at + 1 :],
            line[:at] + letter + line[at:],
            line[:at] + line[at + 1 :],
            line[:at] + line[max(0, at - 9) :],
        )[kind]
    return line


def damaged_value(value: Json, chance: Random) -> Json:
    """Return JSON with one value somewhere changed or removed."""
    if chance.random() < 0.3 or not isinstance(value, dict) or not value:
        return chance.choice(VALUES)
    name = chance.choice(list(value))
    rest = {other: own for other, own in value.items() if other != name}
    return rest if chance.random() < 0.3 else {**rest, name: damaged_value(value[name], chance)}


def garbage(count: int, seed: int) -> Iterator[str]:
    """Generate bytes of any kind, damaged lines, and JSON of a wrong shape."""
    chance = Random(seed)
    yield from EXTREMES
    for number in range(count - len(EXTREMES)):
        match number % 4:
            case 0:
                yield chance.randbytes(chance.randrange(60)).replace(b"\n", b" ").decode(errors="replace")
            case 1:
                yield json.dumps(damaged_value(chance.choice(TRUE_MESSAGES), chance))
            case _:
                yield damaged_text(chance)


class Parent(Line):
    """A simulated parent's agent, which opens any relay."""

    def send(self, line: str) -> None:
        """Answer."""
        self.say(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {}}))


def greeting() -> str:
    """Return the greeting of an agent."""
    fake = FakeAgent()
    said = fake.receive()
    fake.close(1)
    assert said is not None
    return said


def test_replies_are_matched_among_a_hundred_thousand_lines_of_garbage() -> None:
    """Answer the requests before and after the garbage, each with its own result."""
    line = Line(greeting())
    agent = Agent(line, name="dut")
    heard: list[str] = []
    agent.listen("x", lambda method, params: heard.append(method))
    before = agent.begin("agent.ping", {})
    line.say(*garbage(CASES, seed=1))
    line.say(json.dumps({"jsonrpc": "2.0", "id": OURS, "result": {"now_ns": 11}}))
    assert before.result(60) == {"now_ns": 11}
    after = agent.begin("agent.ping", {})
    line.say(json.dumps({"jsonrpc": "2.0", "id": OURS + 1, "result": {"now_ns": 22}}))
    assert after.result(10) == {"now_ns": 22}
    assert len(heard) > CASES // 100, "notifications among them that still were some"
    line.say(None)


def test_garbage_from_one_guest_affects_neither_the_parent_agent_nor_other_guests() -> None:
    """Ignore malformed relay messages; the relay of the other guest works."""
    outer = Parent(greeting())
    parent = Agent(outer)
    noisy = RelayedTransport(parent, "x", at_socket("/a"))
    good = RelayedTransport(parent, "y", at_socket("/b"))
    outer.say(*garbage(CASES // 10, seed=2))
    told = {"jsonrpc": "2.0", "method": "relay.received", "params": {"id": "y", "message": {"id": 3}}}
    outer.say(json.dumps(told))
    assert good.receive() == '{"id":3}'
    assert len(str(noisy.last_words())) < 1 << 20
    outer.say(None)
    assert good.receive() is None


def test_malformed_result_raises_agent_error() -> None:
    """Return a result or raise AgentError, for any input."""
    chance = Random(3)
    usual = {"result": {"exit_status": 0, "observations": [], "undone": 1, "failed": []},
             "error": {"code": 1, "message": "no", "data": None}}  # fmt: skip
    refused = 0
    for number in range(CASES // 10):
        pending = Pending("command.run", Line())
        reply = damaged_value(usual, chance)
        pending.settle(reply if isinstance(reply, dict) else {"result": reply})
        try:
            decode((CommandResult, Reading, UndoReport)[number % 3], pending.result(0), "answer")
        except AgentError:
            refused += 1
    assert refused > CASES // 100


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"count": -1}, "greater than or equal to 0"),
        ({"count": 7}, "the buckets of the histogram contain 3 values, but its total count is 7"),
        ({"sum": None}, "valid integer"),
        ({"max": "12"}, "valid integer"),
        ({"buckets": [[1, -2]]}, "greater than or equal to 0"),
    ],
)
def test_impossible_histogram_counts_are_refused_and_the_agent_is_named(
    told: dict[str, Json], why: str
) -> None:
    """Refuse text as a number, negative counts, and more values than in the buckets."""
    true = {"count": 3, "sum": 9, "min": 1, "max": 5, "above": 1, "buckets": [[1, 2]]}
    assert decode(Histogram, true, "histogram", agent="dut").count == 3
    with pytest.raises(BadAnswer, match=f"reading histogram from the agent of dut failed at .*{why}"):
        decode(Histogram, {**true, **told}, "histogram", agent="dut")


def test_non_finite_and_out_of_range_numbers_are_read_as_none() -> None:
    """Read them as None: no typed field accepts None as a number, and nothing computes with it."""
    line = '{"a":1e999,"b":NaN,"c":18446744073709551616,"d":18446744073709551615,"e":-1.5}'
    assert read_message(line) == {"a": None, "b": None, "c": None, "d": 2**64 - 1, "e": -1.5}


def test_end_of_a_relay_is_reported_even_if_its_reason_is_not_text() -> None:
    """Accept any JSON value as the reason."""
    outer = Parent(greeting())
    relay = RelayedTransport(Agent(outer), "x", at_socket("/a"))
    outer.say(json.dumps({"method": ENDED, "params": {"id": "x", "reason": [None]}}))
    assert relay.receive() is None
    assert relay.ended == "[None]"
    outer.say(None)
