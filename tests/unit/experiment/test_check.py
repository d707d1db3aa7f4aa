"""Invalid YAML experiments: every problem at once, each with its line, the value, and the allowed values."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse

BASE = """\
lab:
  machines:
    a: {kind: netns}
    b: {kind: netns}
    c: {kind: netns, on: none}
  links:
    lan: {ends: [a.eth0, b.eth0, c.eth0], mtu: 1500, offload: {tso: on}}
measure:
  tcp: {kind: stream, from: a, to: b, duration: 1s}
  udp: {kind: stream, protocol: udp, rate: 1Gbit, from: a, to: b, duration: 1s}
factors:
  links.lan.mtu: [1500, 9000]
  net:
    plain: {}
    vlan: {links.lan.vlan: 100}
baseline: {net: plain}
blocks: 3
"""
MTU = "links.lan.mtu: [1500, 9000]"
TCP = "{kind: stream, from: a, to: b, duration: 1s}"
C = "{kind: netns, on: none}"


def changed(old: str, new: str) -> str:
    """Return the base text with one part replaced."""
    assert old in BASE
    return BASE.replace(old, new)


def problems(text: str) -> list[str]:
    """Return the problems of a text."""
    with pytest.raises(InputError) as caught:
        parse(text, "f.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_base_experiment_is_valid() -> None:
    """Check the base, so that each later test has a single mistake."""
    experiment = parse(BASE, "f.yaml")
    assert (experiment.title, experiment.blocks, experiment.seed) == ("f", 3, 1)
    assert experiment.baseline == {"net": "plain"}
    assert experiment.text == BASE


def test_host_may_send_a_stream_to_itself() -> None:
    """Send over its loopback interface without a link; refuse other kinds of measures."""
    text = "lab: {machines: {a: {kind: host}}}\nmeasure: {it: {kind: %s, from: a, to: a}}\n"
    assert parse(text % "stream", "f.yaml").title == "f"
    assert any("'a', which has no port on a link" in told for told in problems(text % "latency"))


WRONG = [
    # paths
    (
        MTU,
        "links.lan.mut: [1]",
        12,
        "saw mut; allowed: a key that exists at this place: ends, mtu",
        "did you mean 'mtu'?",
    ),
    (MTU, "link.lan.mtu: [1]", 12, "saw link", "did you mean 'links'?"),
    (MTU, "links.lon.mtu: [1]", 12, "saw lon", "did you mean 'lan'?"),
    (MTU, "tpc.window: [1K]", 12, "saw tpc", "did you mean 'tcp'?"),
    (MTU, "links.lan.offload.tos: [on]", 12, "saw tos", "did you mean 'tso'?"),
    (MTU, '"*.form": [a]', 12, "saw form", "did you mean 'from'?"),
    (MTU, "machines.*.nic: [e1000]", 12, "saw nic", "kind, on, ports, forward"),
    (MTU, "machines: [1]", 12, "'machines' is not a path", ""),
    (MTU, "machines.: [1]", 12, "machines.NAME", ""),
    (MTU, "tcp: [1]", 12, "write tcp.KEY", ""),
    (MTU, "tcp.: [1]", 12, "saw ; allowed: a key that exists at this place", ""),
    (MTU, "foo: [1]", 12, "'foo' is not a path", ""),
    ("vlan: {links.lan.vlan", "vlan: {links.lan.vlam", 15, "saw vlam", "did you mean 'vlan'?"),
    # levels
    (MTU, "links.lan.mtu: [1500, 90000]", 12, "saw 90000; allowed: a whole number from 68 to 65535", ""),
    (MTU, "links.lan.mtu: [1500, 1500]", 12, "the label '1500' more than once", ""),
    (MTU, "links.lan.mtu: []", 12, "no levels", ""),
    (MTU, "links.lan.mtu: 9000", 12, "saw 9000; allowed: a list of values, or a mapping", ""),
    (
        MTU,
        "links.lan.mtu: {a: {value: 9000, factor: {}}}",
        12,
        "the key 'factor'",
        "{value: ..., factors: {...}}",
    ),
    (MTU, "links.lan.mtu: {a: {factors: {}}}", 12, "no value", ""),
    (MTU, "links.lan.ends.7: [c.eth0]", 12, "saw the list item 7", ""),
    (MTU, "links.lan.shape.rate: [1Gbit]", 12, "saw no key at", ""),
    (MTU, "foo: {a: {}, b: {}}", 12, "levels that set no path", ""),
    (MTU, "foo: {a: 1}", 12, "saw 1; allowed: a mapping from path to value", ""),
    (
        MTU,
        "links.lan.mtu: {a: {value: 1500, factors: {net: {x: {tcp.window: 1K}}}}}",
        13,
        "twice in one cell",
        "",
    ),
    (
        "plain: {}",
        "plain: {links.lan.mtu: 1500}",
        13,
        "a path that the factor 'links.lan.mtu' does not set",
        "",
    ),
    (
        MTU,
        "links.lan.mtu: {a: {value: 1500, factors: {links.lan.mtu: [9000]}}}",
        12,
        "its own sub-factor",
        "",
    ),
    (MTU, "machines.b: {none: none, one: {kind: netns}}", 7, "saw b; allowed: a machine: a, c", ""),
    (
        "tcp: {kind: stream, ",
        "tcp: {kind: stream, window: 513M, ",
        9,
        "saw 513M; allowed: a size of at most 512M",
        "",
    ),
    # machines
    (C, "{kind: netn}", 5, "saw netn; allowed: host, netns, vm", "did you mean 'netns'?"),
    (C, "{knid: netns}", 5, "no kind", "did you mean 'kind' instead of 'knid'?"),
    (C, "{kind: netns, on: d}", 5, "saw d; allowed: a machine: a, b, c", ""),
    (C, "{kind: netns, on: c}", 5, "c on c; allowed: machines without a cycle in `on`", ""),
    (C, "{kind: host, on: a}", 5, "saw a; allowed: none", ""),
    (C, "{kind: vm, nic: virtio_net}", 5, "saw virtio_net", "did you mean 'virtio-net'?"),
    (C, "{kind: vm, memory: 1GB}", 5, "saw 1GB", "write 1G for the binary unit"),
    (C, "{kind: vm, cpus: '2'}", 5, "saw 2; allowed: a whole number from 1 to 1024", ""),
    (C, "{kind: vm, pin: [a]}", 5, "pin.0: saw a", ""),
    (
        C,
        "{kind: netns, disks: [{volume: v}]}",
        5,
        "disks.0.volume: saw v; allowed: a volume: none defined",
        "",
    ),
    ("    c:", "    abcdefghijklmnop:", 5, "at most 15", ""),
    ("    c:", "    c.d:", 5, "letters, digits", ""),
    ("    c:", "    none:", 5, "a name other than", ""),
    # links
    ("c.eth0]", "d.eth0]", 7, "ends.2: saw d; allowed: a machine: a, b, c", ""),
    ("c.eth0]", "c]", 7, "saw c; allowed: machine.port", "did you mean 'c.eth0'?"),
    ("c.eth0]", "c.a_far_too_long_name]", 7, "at most 15", ""),
    ("c.eth0]", "a.eth0]", 7, "a.eth0 twice", ""),
    ("\nmeasure", "\n    two: {ends: [a.eth0, c.eth1]}\nmeasure", 8, "already an end of 'lan'", ""),
    ("tso: on", "tso: true", 7, "saw true; allowed: on, off or none", "did you mean 'on'?"),
    ("tso: on", "tos: on", 7, "the key 'tos'", "did you mean 'tso'?"),
    ("mtu: 1500", "mtu: '1500'", 7, "a whole number from 68", ""),
    ("mtu: 1500", "mtu: true", 7, "saw true", ""),
    (
        "a, to: b, duration: 1s}\n  udp",
        "a, to: b, duration: 25h}\n  udp",
        9,
        "saw 25h; allowed: a duration in whole seconds",
        "",
    ),
    ("mtu: 1500", "vlan: 4095", 7, "saw 4095; allowed: a whole number from 1 to 4094 or none", ""),
    ("mtu: 1500", "wire: {delay: 5}", 7, "a duration with its unit", "did you mean 5ms?"),
    (
        "mtu: 1500",
        "shape: {at: a.eth1, qdisc: htb, rate: 1Gbit}",
        7,
        "saw a.eth1; allowed: an end of this link",
        "",
    ),
    (
        "mtu: 1500",
        "shape: {at: a.eth0, qdisc: tbf, rate: 1Gbit, classes: {g: {rate: 1Mbit}}}",
        7,
        "htb or pacer",
        "",
    ),
    (
        "mtu: 1500",
        "shape: {at: a.eth0, qdisc: fq}",
        7,
        "saw `fq` without a rate; allowed: a rate",
        "add rate",
    ),
    (
        "mtu: 1500",
        "shape: {at: a.eth0, qdisc: fq, rate: 1Gbit, burst: 32K}",
        7,
        "saw `burst` with the qdisc fq",
        "allowed: `burst` with the qdisc htb or tbf",
    ),
    (
        "mtu: 1500",
        "shape: {at: a.eth0, qdisc: htb, rate: 1Gbit, latency: 20ms}",
        7,
        "saw `latency` with the qdisc htb",
        "allowed: `latency` with the qdisc tbf",
    ),
    (
        "mtu: 1500",
        "shape: {at: a.eth0, qdisc: tbf, rate: 1Gbit, latency: 20ms, limit: 1M}",
        7,
        "saw both `limit` and `latency`",
        "one of these two keys",
    ),
    (
        "mtu: 1500",
        "shape: {at: a.eth0, qdisc: htb, rate: 1Gbit, classes: {g: {rate: 1Mbit, from: d}}}",
        7,
        "saw d",
        "",
    ),
    (
        "mtu: 1500",
        "shape: {at: a.eth0, qdisc: htb, rate: 1Gbit, default: x}",
        7,
        "saw x; allowed: a class",
        "",
    ),
    (
        "mtu: 1500",
        "shape: {at: a.eth0, qdisc: pacer, rate: 10, classes: {g: {rate: 20, ceil: 10}}}",
        7,
        "ceil",
        "",
    ),
    ("mtu: 1500", "addresses: {a.eth0: 198.18.0.1}", 7, "saw 198.18.0.1", "did you mean '198.18.0.1/24'?"),
    ("mtu: 1500", "addresses: {a.eth1: 198.18.0.1/24}", 7, "saw a.eth1; allowed: an end of this link", ""),
    ("mtu: 1500", "addresses: {a.eth0: 198.18.0.1/24, b.eth0: 198.18.0.1/24}", 7, "no other port has", ""),
    ("\nmeasure", "\n  volumes: {v: {on: d, size: 1G}}\nmeasure", 8, "saw d; allowed: a machine", ""),
    ("\nmeasure", "\n  volumes: {v: {on: a, size: 0}}\nmeasure", 8, "saw 0", ""),
    # measures
    (TCP, "{kind: steram}", 9, "saw steram", "did you mean 'stream'?"),
    (TCP, "stream", 9, "a mapping, such as {kind: stream}", ""),
    (TCP, "{kind: stream, src: a, to: b}", 9, "the key 'src'", ""),
    (TCP, "{kind: stream, to: b}", 9, "no key from", "add from"),
    (TCP, "{kind: stream, from: a}", 9, "no key to", "add to"),
    (TCP, "{kind: stream}", 9, "no key from or to", ""),
    (TCP, "{kind: stream, from: a, to: d}", 9, "saw d; allowed: a machine", ""),
    (
        TCP,
        "{kind: stream, from: a, to: b.eth9}",
        9,
        "saw b.eth9; allowed: a port that is an end of a link: b.eth0",
        "",
    ),
    (TCP, "{kind: stream, from: a, to: a}", 9, "'a' as both ends of the measure", ""),
    (TCP, "{kind: stream, from: a, flows: [{from: a, to: b}]}", 9, "both of the keys flows and from", ""),
    (TCP, "{kind: stream, flows: [{from: a, to: d}]}", 9, "flows.0.to: saw d", ""),
    (TCP, "{kind: stream, from: a, to: b, watch: [lam]}", 9, "watch.0: saw lam", "did you mean 'lan'?"),
    (
        TCP,
        "{kind: stream, from: a, to: b, watch: [{at: a.eth1, window: 12us}]}",
        9,
        "watch.0.at: saw a.eth1",
        "",
    ),
    (
        TCP,
        "{kind: stream, from: a, to: b, watch: [{at: lan, window: 0us}]}",
        9,
        "saw 0us",
        "",
    ),
    (
        TCP,
        "{kind: stream, from: a, to: b, watch: [{at: lan, window: 12500ns}]}",
        9,
        "saw 12500 ns; allowed: whole microseconds",
        "",
    ),
    (
        TCP,
        "{kind: stream, from: a, to: b, watch: [{at: lan, window: [12us, 12us]}]}",
        9,
        "allowed: each window length only once",
        "",
    ),
    (
        TCP,
        "{kind: stream, from: a, to: b, watch: [{at: lan, window: 5us, flows: 2}]}",
        9,
        "2 flows in windows of 5000 ns; allowed: windows of 10us or more",
        "",
    ),
    (TCP, "{kind: stream, from: a, to: b, watch: [{at: lan, line: 0}]}", 9, "watch.0.line: saw 0", ""),
    (TCP, "{kind: stream, from: a, to: b, watch: [{at: lan, flows: 16}]}", 9, "watch.0.flows: saw 16", ""),
    (
        TCP,
        "{kind: stream, from: a, to: b, sample: 1ms}",
        9,
        "saw 1ms; allowed: a duration from 10ms",
        "",
    ),
    (
        TCP,
        "{kind: stream, from: a, to: b, instruments: [watch]}",
        9,
        "instruments.0.at: saw no key at; allowed: text",
        "",
    ),
    (
        TCP,
        "{kind: stream, from: a, to: b, instruments: [{kind: watch, ports: [a.eth0]}]}",
        9,
        "saw the key 'ports'; allowed: the keys kind, at, window, line, train_gap, buffers, flows",
        "",
    ),
    (
        TCP,
        "{kind: stream, from: a, to: b, instruments: [smaplers]}",
        9,
        "instruments.0: saw smaplers; allowed: samplers, queues, wires, watch",
        "did you mean 'samplers'?",
    ),
    (
        TCP,
        "{kind: stream, from: a, to: b, instruments: [{kind: wtach, at: lan}]}",
        9,
        "0.kind: saw wtach",
        "'watch'?",
    ),
    (
        TCP,
        "{kind: stream, from: a, to: b, instruments: [{at: lan}]}",
        9,
        "no kind; allowed: kind: samplers",
        "",
    ),
    (
        TCP,
        "{kind: stream, from: a, to: b, instruments: [{kind: watch, at: lam}]}",
        9,
        "0.at: saw lam",
        "'lan'?",
    ),
    (TCP, "{kind: stream, from: a, to: b, duration: 0s}", 9, "duration: saw 0s", ""),
    (TCP, "{kind: forwarding, from: a.eth0, to: b.eth0, loss_ratio: 5}", 9, "saw 5", "did you mean 5%?"),
    (TCP, "{kind: disk, program: fio, on: d}", 9, "saw d; allowed: a machine", ""),
    ("  tcp: {", "  lan: {", 9, "a name that is not used under 'links'", ""),
    ("  tcp: {", "  links: {", 9, "a name other than", ""),
    # the rest
    (
        "baseline: {net: plain}",
        "baseline: {net: plian}",
        16,
        "a level of net: plain",
        "did you mean 'plain'?",
    ),
    (
        "baseline: {net: plain}",
        "baseline: {nte: plain}",
        16,
        "saw nte; allowed: a factor",
        "did you mean 'net'?",
    ),
    ("baseline: {net: plain}", "baseline: {net: [plain]}", 16, "one label", ""),
    ("baseline: {net: plain}", "baseline: plain", 16, "a mapping from factor", ""),
    (
        "baseline: {net: plain}",
        "baseline: {net: plain}\nexcept: {net: plain}",
        16,
        "a combination of levels that exists in a cell",
        "",
    ),
    ("baseline: {net: plain}", "only: [{net: vlam}]", 16, "saw vlam", "did you mean 'vlan'?"),
    ("baseline: {net: plain}", "only: [3]", 16, "a mapping from factor to a label", ""),
    ("baseline: {net: plain}", "only: {net: vlan}\nexcept: {net: vlan}", 16, "no remaining cell", ""),
    ("blocks: 3", "blocks: 0", 17, "saw 0; allowed: a whole number from 1", ""),
    ("blocks: 3", "blocks: true", 17, "saw true", ""),
    ("blocks: 3", "seed: x", 17, "saw x", ""),
    ("blocks: 3", "title: [x]", 17, "one line", ""),
    ("blocks: 3", "block: 3", 17, "the key 'block'", "did you mean 'blocks'?"),
    ("blocks: 3", "machines: {}", 17, "the key 'machines'", "under 'lab'"),
    ("  machines:", "  machine:", 2, "the key 'machine'", "did you mean 'machines'?"),
    ("lab:", "lap:", 1, "the key 'lap'", "did you mean 'lab'?"),
    ("measure:\n", "measures:\n", 8, "the key 'measures'", "did you mean 'measure'?"),
]


@pytest.mark.parametrize(
    ("old", "new", "line", "words", "advice"), WRONG, ids=[case[1][:50] for case in WRONG]
)
def test_mistake_is_reported_with_its_line_and_the_nearest_valid_word(
    old: str, new: str, line: int, words: str, advice: str
) -> None:
    """Report the place, the value, the allowed values, and the nearest valid word."""
    told = problems(changed(old, new))
    assert any(text.startswith(f"f.yaml:{line}: ") and words in text and advice in text for text in told), (
        told
    )


def test_all_mistakes_are_reported_in_line_order() -> None:
    """Report five mistakes in five places as five problems."""
    text = (
        BASE.replace("mtu: 1500", "mtu: 64")
        .replace("rate: 1Gbit", "rate: 1Gbps")
        .replace("lan.mtu:", "lan.mut:")
    )
    text = text.replace("{net: plain}", "{net: plian}").replace("blocks: 3", "blocks: x")
    told = problems(text)
    assert [text.split(":")[1] for text in told] == ["7", "10", "12", "16", "17"]


def test_wrong_factor_is_reported_once() -> None:
    """Do not report its consequences (an unknown baseline)."""
    assert (
        len(problems(changed("vlan: {links.lan.vlan: 100}", "vlan: 3").replace("net: plain}", "net: vlan}")))
        == 1
    )


def test_mistake_in_many_cells_is_reported_once() -> None:
    """Report it once for all combinations."""
    text = changed("[1500, 9000]", str([*range(1000, 1200)])).replace("to: b, duration", "to: d, duration", 1)
    assert len(problems(text)) == 1


def test_list_of_problems_is_limited_to_100() -> None:
    """List a hundred, and count the others."""
    lines = "\n".join(f"  links.lan.x{i}: [1]" for i in range(500))
    told = problems(BASE.replace("factors:", f"factors:\n{lines}"))
    assert len(told) == 101
    assert "more problems" in told[-1]


def test_experiment_with_too_many_cells_is_refused_with_their_number() -> None:
    """Refuse twelve factors of ten levels at once."""
    ten = ",".join(map(str, range(1, 11)))
    paths = [
        f"{measure}.{key}" for measure in ("tcp", "udp") for key in ("window", "length", "parallel", "rate")
    ]
    text = changed(MTU, "\n  ".join(f"{path}: [{ten}]" for path in paths))
    assert any("200000000 cells" in told and "at most 10000000 cells" in told for told in problems(text))


def test_factor_paths_with_a_star_that_match_too_many_keys_are_refused_with_their_number() -> None:
    """Bound a * over many measures times many levels."""
    measures = "\n".join(f"  t{i}: {TCP}" for i in range(400))
    text = changed("  tcp: " + TCP, "  tcp: " + TCP + "\n" + measures).replace(
        MTU, f'"*.window": {[*range(1, 200)]}'
    )
    assert any("all levels together set" in told for told in problems(text))


def test_excluded_combination_is_not_checked() -> None:
    """Ignore a combination that `except` leaves out."""
    text = changed(MTU, '"*.from": [a, b]')
    assert any("'b' as both ends of the measure" in told for told in problems(text))
    assert parse(text + 'except: {"*.from": b}\n', "f").excluded


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("{kind: netns, forward: xdp, device: {loss: 1%, lose_every: 10}}", "loss and lose_every"),
        ("{kind: netns, forward: xdp, device: {rate: 1000}}", "did you mean 1000pps?"),
        ("{kind: netns, forward: xdp, device: {rate: 10%}}", "bit/s"),
        ("{kind: netns, forward: xdp, device: {queue: 32K}}", "`queue` without a rate"),
        ("{kind: netns, forward: xdp, device: {rate: 1Mbit, burst: 9}}", "a burst with a rate of 1000000bit"),
        ("{kind: netns, forward: xdp, device: {rate: 1Mbit, queue_time: 9ms, codel: {}}}", "CoDel itself"),
        ("{kind: netns, forward: xdp, device: {delay: 1ms, overtake: true}}", "no jitter"),
        ("{kind: netns, forward: xdp, device: {loss: 101%}}", "a ratio from 0 to 1"),
        ("{kind: netns, forward: bridge, device: {delay: 1ms}}", "a device with `forward: bridge`"),
        ("{kind: netns, forward: xdp, device: {stall: {length: 2s, every: 1s}}}", "a `length` below `every`"),
    ],
)
def test_device_setting_that_would_be_ignored_is_reported(machine: str, words: str) -> None:
    """Report a setting that would be ignored."""
    (problem,) = problems(changed(C, machine))
    assert words in problem
    assert "f.yaml:5" in problem


def test_machine_names_added_by_levels_are_listed_in_file_order() -> None:
    """Keep a stable order of names, which a set would not."""
    added = [f"node{number}" for number in range(12)]
    levels = "".join(f"      machines.{name}: {{kind: netns}}\n" for name in added)
    text = (
        "lab:\n  machines:\n    box: {kind: netns}\nmeasure:\n  tcp: {kind: stream, from: nowhere, to: box}\n"
        f"factors:\n  where:\n    all:\n{levels}"
    )
    with pytest.raises(InputError) as caught:
        parse(text, "f.yaml")
    assert str(caught.value).endswith(", ".join(["box", *added]))
