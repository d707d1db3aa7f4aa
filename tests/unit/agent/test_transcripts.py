"""The fake agent on the contract's examples and on recorded sessions of the real one."""

import json
import re
from pathlib import Path

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost

from iolab.agent import messages
from iolab.agent.answers import Reading
from iolab.agent.decoding import decode
from iolab.agent.messages import Hello, Json

CONTRACT = Path(__file__).parents[3] / "contract"
EXAMPLES = [
    json.loads(text)
    for text in re.findall(r"```json\n(.*?)\n```", (CONTRACT / "agent-v1.md").read_text(), re.DOTALL)
]
PORTS = {"id": "t1", "ports": [{"name": "near", "interface": "a"}, {"name": "far", "interface": "b"}]}
CAPTURE = {"id": "capture:near.eth0", "interface": "a", "snap_bytes": 64, "ring_bytes": 1 << 20}
WATCH = {"id": "watch:near.eth0", "points": [{"interface": "a", "hook": "ingress"}], "windows_ns": [12_000]}
REQUESTS = [example for example in EXAMPLES if "method" in example and "id" in example]
RESULTS = {example["id"]: example["result"] for example in EXAMPLES if "result" in example}
METHODS = json.loads((CONTRACT / "agent-v1.schema.json").read_text())["methods"]
TYPES = {method: one["result"]["$ref"].rpartition("/")[2] for method, one in METHODS.items()}
SHAPES = {method: getattr(messages, name) for method, name in TYPES.items() if hasattr(messages, name)}
SHAPES["sample.read"] = Reading


def test_greeting_example_in_the_contract_is_decoded() -> None:
    """Decode the greeting on the page, predecessors included."""
    hello = next(example for example in EXAMPLES if example.get("method") == "hello")
    assert decode(Hello, hello["params"], "hello").predecessors[0].entries == 12


@pytest.mark.parametrize(
    "request_",
    [r for r in REQUESTS if r["method"] in SHAPES and r["id"] in RESULTS],
    ids=lambda r: r["method"],
)
def test_every_result_example_in_the_contract_is_decoded(request_: dict[str, object]) -> None:
    """Decode every example result of the contract in the client."""
    result = RESULTS[request_["id"]]
    assert decode(SHAPES[str(request_["method"])], result, "example") is not None


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r["method"])
def test_fake_agent_answers_every_method_with_the_fields_defined_in_the_contract(
    request_: dict[str, object],
) -> None:
    """Check this: a missing method or field would accept a controller that the real agent refuses."""
    fake = FakeAgent(FakeHost(behind={"/run/iolab/f/dut/agent": FakeAgent}), machine=True)
    fake.receive()
    relay = {"id": "dut", "at": {"kind": "socket", "path": "/run/iolab/f/dut/agent"}}
    prepare = {
        "folder.delete": ("folder.create", {"name": "dut"}),
        **dict.fromkeys(("relay.send", "relay.close"), ("relay.open", relay)),
        "process.wait": ("process.start", {"id": "server-1", "argv": ["x"]}),
        "process.stop": ("process.start", {"id": "server-1", "argv": ["x"]}),
        "netns.delete": ("netns.create", {"name": "iolab-near"}),
        "sample.stop": ("sample.start", {"series": "s1"}),
        **dict.fromkeys(("traffic.close", "traffic.record", "traffic.run"), ("traffic.open", PORTS)),
        **dict.fromkeys(
            ("wire.change", "wire.restart_draws", "wire.read", "wire.stop"),
            ("wire.start", {"id": "wire:west"}),
        ),
        **dict.fromkeys(("watch.stop", "watch.read", "watch.close"), ("watch.start", WATCH)),
        **dict.fromkeys(("capture.stop", "capture.read", "capture.close"), ("capture.start", CAPTURE)),
        **dict.fromkeys(("device.read", "device.stop"), ("device.start", {"id": "dut"})),
    }
    if request_["method"] in prepare:
        method, params = prepare[str(request_["method"])]
        fake.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": method, "params": params}))
        _reply(fake, 0)
    fake.send(json.dumps(request_))
    reply = _reply(fake, request_["id"])
    expected = RESULTS.get(request_["id"])
    if expected is None:
        expected = RESULTS[4]  # process.stop has the same result as process.wait
    assert set(reply["result"]) == set(expected)
    if shape := SHAPES.get(str(request_["method"])):
        decode(shape, reply["result"], "simulated answer")


def _reply(fake: FakeAgent, number: object) -> Json:
    """Return the answer to a request, skipping notifications."""
    while True:
        message: Json = json.loads(fake.receive() or "")
        if message.get("id") == number:
            return message
