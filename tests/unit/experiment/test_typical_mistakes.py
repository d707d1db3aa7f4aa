"""Mistakes of first experiments: each message has file, line, the value, and a remedy."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse
from iolab.plan.support import check_cells

RIGHT = """\
lab:
  machines:
    a: {kind: netns}
    b: {kind: netns}
  links:
    lan: {ends: [a.eth0, b.eth0], mtu: 1500}
measure:
  tcp: {kind: stream, from: a, to: b, duration: 1s}
factors:
  links.lan.mtu: [1500, 9000]
blocks: 3
"""
A, LAN, TCP = "a: {kind: netns}", "mtu: 1500}", "duration: 1s"

MISTAKES = [
    # original text, replacement, line, reported value, remedy
    (A, "a: {knd: netns}", 3, "no kind", "did you mean 'kind' instead of 'knd'?"),
    (A, "a: {kind: netn}", 3, "netn", "did you mean 'netns'?"),
    (A, "a: {}", 3, "no kind", "add kind: vm"),
    (A, "a: netns", 3, "netns", "a mapping, such as {kind:"),
    (A, "a: {kind: docker}", 3, "docker", "write `kind: netns`"),
    (A, "a: {kind: qemu}", 3, "qemu", "write `kind: vm`"),
    (A, "a: {kind: ssh}", 3, "ssh", "write `kind: host`"),
    (A, "a: {kind: vm, memory: 1G1}", 3, "1G1", "binary unit K, M, G or T"),
    (A, "a: {kind: vm, memory: 512}", 3, "512", "96M to 16T"),
    (A, "a: {kind: vm, cpus: two}", 3, "two", "a whole number from 1 to 1024"),
    (A, "a: {kind: vm, cpus: 0}", 3, "0", "a whole number from 1 to 1024"),
    (A, "a: {kind: netns, cpus: 2}", 3, "the key 'cpus'", "the keys kind, on, ports"),
    (A, "A B: {kind: netns}", 3, "A B", "letters, digits, - and _"),
    ("[a.eth0, b.eth0]", "[a, b]", 6, "a", "did you mean 'a.eth0'?"),
    ("[a.eth0, b.eth0]", "[a.eth0, c.eth0]", 6, "c", "a machine: a, b"),
    ("[a.eth0, b.eth0]", "[a.eth0]", 6, "[a.eth0]", "2 or more"),
    ("[a.eth0, b.eth0]", "a.eth0 b.eth0", 6, "a.eth0 b.eth0", "a list of 2 or more"),
    ("[a.eth0, b.eth0]", "[a:eth0, b:eth0]", 6, "a:eth0", "machine.port"),
    ("[a.eth0, b.eth0]", "[a.eth0, a.eth0]", 6, "a.eth0 twice", "different ends"),
    (LAN, "mtu: big}", 6, "big", "a whole number from 68 to 65535"),
    (LAN, "rate: 1G}", 6, "the key 'rate'", "write shape: {at: MACHINE.PORT, qdisc: htb, rate: ...}"),
    (LAN, "delay: 10ms}", 6, "the key 'delay'", "write wire: {delay: ...}"),
    (LAN, "offload: {tso: yes}}", 6, "yes", "on, off or none"),
    (LAN, "vlan: 5000}", 6, "5000", "from 1 to 4094 or none"),
    (LAN, "addresses: [10.0.0.1/24]}", 6, "[10.0.0.1/24]", "such as 198.18.0.1/24"),
    ("kind: stream", "kind: iperf3", 8, "iperf3", "write `kind: stream`"),
    ("kind: stream", "kind: steam", 8, "steam", "did you mean 'stream'?"),
    ("from: a", "form: a", 8, "the key 'form'", "did you mean 'from'?"),
    ("from: a", "from: c", 8, "c", "a machine.port that is an end of a link: a, b"),
    ("from: a", "from: b", 8, "'b' as both ends of the measure", "two different machines or ports"),
    ("from: a, ", "", 8, "no key from", "add from"),
    (TCP, "duration: 1", 8, "1", "did you mean 1s?"),
    (TCP, "duration: 1sec", 8, "1sec", "did you mean 1s?"),
    (TCP, f"{TCP}, rate: 1G", 8, "1G", "did you mean 1Gbit?"),
    (TCP, f"{TCP}, protocol: sctp", 8, "sctp", "tcp, udp"),
    (TCP, f"{TCP}, window: 64 KB", 8, "64 KB", "write 64K"),
    ("links.lan.mtu: [", "lan.mtu: [", 10, "lan", "machines, links, volumes"),
    ("[1500, 9000]", "1500, 9000", 10, "1500, 9000", "a list of values"),
    ("blocks: 3", "repeat: 3", 11, "the key 'repeat'", "write 'blocks'"),
    ("blocks: 3", "block: 3", 11, "the key 'block'", "did you mean 'blocks'?"),
    ("blocks: 3", "blocks: many", 11, "many", "a whole number from 1 to"),
    ("blocks: 3", "baseline: {links.lan.mtu: 1400}", 11, "1400", "did you mean '1500'?"),
    ("measure:", "measures:", 7, "the key 'measures'", "did you mean 'measure'?"),
    ("blocks: 3", "\tblocks: 3", 11, "blocks: 3", "indent with spaces, not tabs"),
    ("blocks: 3", "title: 'x", 11, "title: 'x", "close the quote"),
]


def test_example_experiment_without_mistakes_is_valid() -> None:
    """Check the base, so that each later test has a single mistake."""
    check_cells(parse(RIGHT, "f.yaml"))


@pytest.mark.parametrize(
    "right", ["shape: {at: a.eth0, qdisc: htb, rate: 100Mbit}", "wire: {delay: 10ms}", "wire: {loss: 0.1}"]
)
def test_link_corrected_as_advised_is_valid(right: str) -> None:
    """Apply the advice of the message."""
    check_cells(parse(RIGHT.replace(LAN, f"{right}}}").replace("links.lan.mtu", "tcp.window"), "f.yaml"))


@pytest.mark.parametrize("device", ["", ", device: {delay: 1ms}"])
def test_stream_through_a_device_that_forwards_only_test_frames_is_refused(device: str) -> None:
    """Refuse it, because it would wait for a connection until its timeout in each block."""
    text = RIGHT.replace(
        "b: {kind: netns}", f"b: {{kind: netns}}\n    d: {{kind: netns, forward: xdp{device}}}"
    )
    text = text.replace(
        "lan: {ends: [a.eth0, b.eth0]", "far: {ends: [d.q, b.eth0]}\n    lan: {ends: [a.eth0, d.p]"
    )
    with pytest.raises(InputError) as caught:
        check_cells(parse(text, "f.yaml"))
    (problem,) = caught.value.problems
    assert problem.where == "f.yaml:5"
    assert str(problem.seen) == "`forward: xdp` on the path of a stream from a to b"
    assert "`forward: bridge` or `route`" in str(problem.allowed)
    check_cells(parse(text.replace("forward: xdp" + device, "forward: bridge"), "f.yaml"))


@pytest.mark.parametrize(("old", "new", "line", "seen", "answer"), MISTAKES, ids=[one[1] for one in MISTAKES])
def test_typical_mistake_is_reported_with_its_line_and_a_remedy(
    old: str, new: str, line: int, seen: str, answer: str
) -> None:
    """Report the line, the value, and the text to write."""
    assert old in RIGHT
    with pytest.raises(InputError) as caught:
        check_cells(parse(RIGHT.replace(old, new, 1), "f.yaml"))
    assert any(
        problem.where == f"f.yaml:{line}"
        and str(problem.seen) == seen
        and answer in f"{problem.allowed!s}; {problem.advice!s}"
        for problem in caught.value.problems
    ), str(caught.value)
