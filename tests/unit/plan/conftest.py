"""An experiment and a host for the tests of planning."""

from collections.abc import Callable

import pytest

from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.lab.hosts.facts import Facts

TEXT = """
title: Small
lab:
  machines: {a: {kind: netns}, b: {kind: netns, forward: none}, c: {kind: netns}}
  links:
    lan: {ends: [a.eth0, b.eth0], mtu: 1500}
    wan: {ends: [b.eth1, c.eth0]}
measure:
  tcp: {kind: stream, protocol: tcp, from: a, to: b, duration: 2s}
  udp: {kind: stream, protocol: udp, from: a, to: b, rate: 100Mbit, duration: 1s}
factors:
  links.lan.mtu: [1500, 4500, 9000]
  tcp.window: [64K, 1M]
  machines.b.forward: [none, route]
baseline: {links.lan.mtu: 1500}
blocks: 3
seed: 7
"""


@pytest.fixture
def text() -> str:
    """Return an experiment file: 3 MTUs x 2 windows (TCP only) x 2 forwarding modes, 3 blocks."""
    return TEXT


@pytest.fixture
def experiment() -> Experiment:
    """Return that file, parsed."""
    return parse(TEXT, "small.yaml")


@pytest.fixture
def read() -> Callable[..., Experiment]:
    """Provide a reader of that file with replaced texts: old, new, old, new, ..."""

    def replaced(*texts: str) -> Experiment:
        text = TEXT
        for old, new in zip(texts[::2], texts[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        return parse(text, "small.yaml")

    return replaced


@pytest.fixture
def facts() -> Facts:
    """Return a host that supports everything in these tests except VLANs."""
    return Facts(
        hostname="pc6",
        kernel="6.1.0",
        architecture="x86_64",
        os="Debian GNU/Linux 12 (bookworm)",
        cpu_model="any",
        cpus=2,
        memory_bytes=8 << 30,
        clocksource="tsc",
        load_1min_milli=0,
        features={"link:vlan": False},
    )
