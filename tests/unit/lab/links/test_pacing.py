"""The pacer as a part of an emulated link: its request, its read-back, and its changes in place."""

import json
from typing import Any

from iolab.experiment import Resolver, parse
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.lab.actions import ImpairWire, StartWire
from iolab.lab.commands import PLANNED, commands_of, request_of
from iolab.lab.compose import compose
from iolab.lab.links.wires import MARGIN_BYTES, longest_wait_ns
from iolab.lab.readback.values import PacedWay, value_shown
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need, NeedKind
from iolab.lab.resources import difference

CLASSES = {
    "g0": {"rate": "400Mbit", "ceil": "600Mbit", "from": "near"},
    "g1": {"rate": "200Mbit", "to": "near.eth0"},
}


def paced(at: str = "far.eth0", **keys: object) -> Lab:
    """Return a lab of one link with a pacer on a port."""
    shape = {"at": at, "qdisc": "pacer", "rate": "600Mbit", **keys}
    link = Link.model_validate(
        {"ends": ["near.eth0", "far.eth0"], "shape": shape, "wire": keys.pop("wire", None)}
    )
    machines = {name: Netns.model_validate({"kind": "netns"}) for name in ("near", "far")}
    return Lab(machines, {"path": link}, {})


def ways(lab: Lab) -> list[list[dict[str, Any]]]:
    """Return the requested stages of each direction."""
    (resource,) = [one for one in compose(lab) if one.key == "impairments:path"]
    (action,) = resource.actions
    assert isinstance(action, ImpairWire)
    (command,) = commands_of(action)
    params: Any = request_of(resource, action, command, PLANNED).params
    return [way["impairments"] for way in params["ways"]]


def test_pacer_is_the_first_stage_in_the_direction_away_from_its_port() -> None:
    """Turn a link without a wire into one; segment GSO frames, so that each can be spaced."""
    there, back = ways(paced(classes=CLASSES, default="g1", limit="1M"))
    assert there == []
    queue = {"kind": "bytes", "bytes": 1 << 20}
    assert back == [{
        "kind": "pacer",
        "rate_bps": 600_000_000,
        "classes": [
            {"rate_bps": 400_000_000, "ceil_bps": 600_000_000, "queue": queue},
            {"rate_bps": 200_000_000, "ceil_bps": 200_000_000, "queue": queue},
        ],
        "filters": [{"source": "198.18.0.1", "class": 0}, {"destination": "198.18.0.1", "class": 1}],
        "default": 1,
    }]  # fmt: skip
    (start,) = [action for one in compose(paced()) for action in one.actions if isinstance(action, StartWire)]
    assert not start.super_frames
    assert start.apart


def test_pacer_without_classes_sends_all_frames_at_the_whole_rate() -> None:
    """Give it the whole rate."""
    (stage,), _ = ways(paced("near.eth0"))
    assert (stage["default"], stage["filters"]) == (0, [])
    assert stage["classes"] == [
        {"rate_bps": 600_000_000, "ceil_bps": 600_000_000, "queue": {"kind": "frames", "frames": 1000}}
    ]


def test_burst_applies_to_the_port_and_is_optional() -> None:
    """Lose nothing of the rate without a burst."""
    (bounded,), _ = ways(paced("near.eth0", burst="3036"))
    (free,), _ = ways(paced("near.eth0"))
    assert bounded["burst_bytes"] == 3036
    assert "burst_bytes" not in free


def test_rate_change_affects_only_the_pacer() -> None:
    """Keep the lab, and set no qdisc of the kernel."""
    first, second = compose(paced()), compose(paced(classes=CLASSES))
    change = difference(first, second)
    assert ([one.key for one in change.undo], [one.key for one in change.do]) == ([], ["impairments:path"])
    assert not any(one.key.startswith(("qdisc:", "veth:")) for one in first)


def test_pacer_settings_are_read_back_from_the_agent() -> None:
    """Report a different rate in the agent's answer as a mismatch."""
    (resource,) = [one for one in compose(paced(classes=CLASSES)) if one.key == "impairments:path"]
    expected = resource.expect[-1].expected
    stage = json.loads(expected)
    assert value_shown(PacedWay(1), json.dumps({"does": [[], [stage]]})) == expected
    assert value_shown(PacedWay(1), json.dumps({"does": [[], [{**stage, "rate_bps": 1}]]})) != expected
    assert value_shown(PacedWay(0), json.dumps({"does": [[], [stage]]})) is None


def test_pacer_needs_taps_and_memory_for_its_class_queues() -> None:
    """Require no qdisc and no filter of the kernel."""
    wanted = [one for one in lab_needs(paced(classes=CLASSES, limit="1M")) if isinstance(one, Need)]
    names = {(one.kind, one.name) for one in wanted}
    memory = next(int(name) for kind, name in names if kind is NeedKind.MEMORY)
    assert memory - 2 * MARGIN_BYTES == 2 << 20
    assert {name for kind, name in names if kind is NeedKind.FEATURE} == {"link:tun"}


def test_wait_for_queued_frames_covers_a_full_pacer_queue() -> None:
    """Wait 121 ms for 1000 frames of 1518 bytes at 100 Mbit/s; use a limit in bytes as it is."""
    text = """
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {path: {ends: [near.p0, far.p0], shape: {at: near.p0, qdisc: pacer, rate: 100Mbit MORE}}}
measure: {it: {kind: latency, from: near.p0, to: far.p0, rate: 1kpps}}
"""
    for more, wait_ns in (("", 121_440_000), (", limit: 100K", 8_192_000)):
        lab = Resolver(parse(text.replace("MORE", more), "lab.yaml")).setup({}).lab
        assert longest_wait_ns(lab, lab.links) == wait_ns
