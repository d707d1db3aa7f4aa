"""Whatever comes over a channel: the reader goes on, whole messages arrive, and what goes wrong is an error of ours."""

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
"""Lines of garbage; more for a night."""
OURS, OTHERS = 1, 70_000
"""Id of the request that waits, and the id in what is damaged."""
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
    """Return the line of a message with some characters replaced, inserted, removed or doubled."""
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
    """Return JSON in which something, somewhere, is another value or is not there."""
    if chance.random() < 0.3 or not isinstance(value, dict) or not value:
        return chance.choice(VALUES)
    name = chance.choice(list(value))
    rest = {other: own for other, own in value.items() if other != name}
    return rest if chance.random() < 0.3 else {**rest, name: damaged_value(value[name], chance)}


def garbage(count: int, seed: int) -> Iterator[str]:
    """Bytes of any kind as they are read, damaged lines, and JSON of another shape."""
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
    """Return what an agent says first."""
    fake = FakeAgent()
    said = fake.receive()
    fake.close(1)
    assert said is not None
    return said


def test_a_hundred_thousand_lines_of_garbage_hide_no_answer() -> None:
    """The request before them and the one after them are answered, each with its own result."""
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


def test_garbage_of_a_guest_leaves_the_agent_in_between_and_its_other_guests_alone() -> None:
    """What a relay tells in another shape is passed over; the relay beside it works."""
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


def test_an_answer_of_another_shape_is_an_error_of_ours() -> None:
    """Whoever waits for it gets a result or an AgentError, whatever it is."""
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
        ({"count": 7}, "3 values are in the buckets, and 7 were counted"),
        ({"sum": None}, "valid integer"),
        ({"max": "12"}, "valid integer"),
        ({"buckets": [[1, -2]]}, "greater than or equal to 0"),
    ],
)
def test_counts_that_cannot_be_are_refused_with_the_machine_that_told_them(
    told: dict[str, Json], why: str
) -> None:
    """Text for a number, less than none, more values than their buckets hold."""
    true = {"count": 3, "sum": 9, "min": 1, "max": 5, "above": 1, "buckets": [[1, 2]]}
    assert decode(Histogram, true, "histogram", agent="dut").count == 3
    with pytest.raises(BadAnswer, match=f"reading histogram from the agent of dut failed at .*{why}"):
        decode(Histogram, {**true, **told}, "histogram", agent="dut")


def test_numbers_that_are_not_finite_or_beyond_64_bits_are_read_as_nothing() -> None:
    """No typed field takes nothing for a number, and nothing computes with it."""
    line = '{"a":1e999,"b":NaN,"c":18446744073709551616,"d":18446744073709551615,"e":-1.5}'
    assert read_message(line) == {"a": None, "b": None, "c": None, "d": 2**64 - 1, "e": -1.5}


def test_the_end_of_a_relay_is_told_whatever_reason_is_given() -> None:
    """A reason that is no text is a reason still."""
    outer = Parent(greeting())
    relay = RelayedTransport(Agent(outer), "x", at_socket("/a"))
    outer.say(json.dumps({"method": ENDED, "params": {"id": "x", "reason": [None]}}))
    assert relay.receive() is None
    assert relay.ended == "[None]"
    outer.say(None)
