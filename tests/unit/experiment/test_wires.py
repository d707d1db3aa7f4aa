"""`wire:` in an experiment file: trace files next to it, and refused values with the allowed ones."""

from pathlib import Path

import pytest

from iolab.errors import InputError
from iolab.experiment.check import load, parse
from iolab.experiment.factors.resolve import Resolver
from iolab.experiment.model.files import delay_samples, delivery_moments, rate_steps
from iolab.experiment.reading.attached import MOST_BYTES
from iolab.units import parse_ratio, write_ratio

FILE = """
title: A path
lab:
  machines: {{near: {{kind: netns}}, far: {{kind: netns}}}}
  links: {{path: {{ends: [near.eth0, far.eth0], wire: {wire}}}}}
measure: {{up: {{kind: stream, from: near, to: far, duration: 1s}}}}
"""


def written(folder: Path, wire: str) -> Path:
    """Write an experiment with such an emulated link."""
    path = folder / "path.yaml"
    path.write_text(FILE.format(wire=wire))
    return path


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        ("{rate: 0}", "a rate above 0"),
        ("{delay: -1ms}", "a duration with its unit"),
        ("{delay: 11s}", "at most 10000000000 ns"),
        ("{loss: 1.5}", "did you mean 1.5%?"),
        ("{loss: 1}", "did you mean 1% or 100%?"),
        ("{loss: 1.0}", "did you mean 1.0% or 100%?"),
        ("{loss: 0.7}", "did you mean 0.7% or 70%?"),
        ("{loss: 101}", "a ratio from 0 to 1"),
        ("{loss: 101%}", "a ratio from 0 to 1"),
        ("{loss_bursts: {to_bad: 1%, to_good: 1}}", "did you mean 1% or 100%?"),
        ("{jitter: 1ms, jitter_correlation: 0.9}", "did you mean 0.9% or 90%?"),
        ("{reorder: {ratio: 2, by: 1ms}}", "did you mean 2%?"),
        ("{delay: 10}", "did you mean 10ms?"),
        ("{delay: 1ms, jitter: 3}", "did you mean 3ms?"),
        ("{queue: 1M}", "`rate`, `rate_trace` or `delivery_trace`, one of which this setting requires"),
        ("{rate: 1Mbit, rate_trace: [[0s, 1Mbit], [1s, 2Mbit]]}", "only one of these rate settings"),
        ("{rate_trace: [[1s, 1Mbit], [0s, 2Mbit]]}", "the time of item 2 is out of order"),
        ("{delivery_trace: [2, 1]}", "the time of item 2 is out of order"),
        ("{delivery_trace: [0]}", "the last time is the length of the trace"),
        ("{jitter_samples: [-1ms]}", "delays of at most 10s with a unit"),
        ("{sent_by: {near.eth1: {loss: 0.1}}}", "did you mean 'near.eth0'?"),
        ("{sent_by: {near.eth0: {codel: {}}}}", "`codel` without a rate"),
        ("{emulator: netem, codel: {}, rate: 1Mbit}", "`emulator: iolab`, or only the keys loss"),
        ("{rate: 1Mbit, codel: {}, ecn_above: 1ms}", "CoDel itself marks frames"),
        ("{rate_trace: none.trace}", "no such file"),
        ("{rate_trace: ../up.trace}", "outside the experiment's folder"),
        ("{rate_trace: large.trace}", f"a file of {MOST_BYTES + 1} bytes"),
    ],
)
def test_invalid_wire_is_refused_with_the_allowed_values(tmp_path: Path, wire: str, said: str) -> None:
    """Print one line for each problem, without a traceback."""
    (tmp_path / "large.trace").write_text("0" * (MOST_BYTES + 1))
    with pytest.raises(InputError) as caught:
        load(written(tmp_path, wire))
    assert said in str(caught.value)


def test_ratio_above_one_half_needs_a_percent_sign(tmp_path: Path) -> None:
    """Write ratios above one half as percentages, which can be read back."""
    for text, ratio in (("0.5", 0.5), ("100%", 1.0), ("1%", 0.01), ("0.0001", 0.0001)):
        wire = Resolver(load(written(tmp_path, f"{{loss: {text}}}"))).setup({}).lab.links["path"].wire
        assert wire is not None
        assert wire.loss == ratio
        assert parse_ratio(write_ratio(ratio)) == ratio
    assert [write_ratio(ratio) for ratio in (1.0, 0.7, 0.999, 0.5)] == ["100%", "70%", "99.9%", "0.5"]


def test_stored_file_with_bare_ratios_above_one_half_is_read() -> None:
    """Accept files from before the percent sign was required, including levels."""
    text = FILE.format(wire="{loss: 1}") + "factors: {links.path.wire.loss: [0.9, 1%]}\n"
    with pytest.raises(InputError):
        parse(text, "experiment.yaml")
    experiment = parse(text, "experiment.yaml", stored=True)
    wire = Resolver(experiment).setup({"links.path.wire.loss": "0.9"}).lab.links["path"].wire
    assert wire is not None
    assert wire.loss == 0.9


@pytest.mark.parametrize("port", ["far.eth0", "far.eth0.100"])
def test_wire_path_with_a_dotted_port_name_is_resolved(port: str) -> None:
    """Accept a sending port, with a VLAN interface, too, before a key of the wire."""
    text = FILE.format(wire="{}").replace("far.eth0", port)
    for path, value in ((f"{port}.rate", "10Mbit"), (port, "{rate: 10Mbit}")):
        factors = f"factors: {{links.path.wire.sent_by.{path}: {{low: {value}}}}}\n"
        wire = (
            Resolver(parse(text + factors, "f.yaml"))
            .setup({f"links.path.wire.sent_by.{path}": "low"})
            .lab.links["path"]
            .wire
        )
        assert wire is not None
        assert [str(way.rate) for way in wire.sent_by.values()] == ["10000000bit"]
    with pytest.raises(InputError, match="saw rte"):
        parse(f"{text}factors: {{links.path.wire.sent_by.{port}.rte: [10Mbit]}}\n", "f.yaml")


def test_trace_file_contents_are_part_of_the_lab_key(tmp_path: Path) -> None:
    """Compare two contents under one file name."""
    trace = tmp_path / "traces" / "up.trace"
    trace.parent.mkdir()
    keys = []
    for rate in (1_000_000, 2_000_000):
        trace.write_text(f"# time [s], rate [bit/s]\n0, {rate}\n0.5, 3e6\n")
        experiment = load(written(tmp_path, "{rate_trace: traces/up.trace}"))
        wire = Resolver(experiment).setup({}).lab.links["path"].wire
        assert wire is not None
        assert wire.rate_trace == ((500_000_000, rate), (500_000_000, 3_000_000))
        assert list(experiment.files) == ["traces/up.trace"]
        keys.append(Resolver(experiment).lab_key({}))
    assert keys[0] != keys[1]


def test_rate_delivery_and_delay_traces_are_read_in_their_formats() -> None:
    """Read times with units or in seconds, mahimahi's milliseconds, and delays as ping prints them."""
    assert rate_steps([["0s", "1Mbit"], ["250ms", 0]]) == ((250_000_000, 1_000_000), (250_000_000, 0))
    assert delivery_moments(["0", "0", "3"]) == (0, 0, 3_000_000)
    assert delay_samples(["1.5", "20us"]) == (1_500_000, 20_000)


@pytest.mark.parametrize("kind", ["watch", "capture"])
def test_instrument_on_a_port_that_a_factor_removes_is_refused(tmp_path: Path, kind: str) -> None:
    """Refuse it at check, because only some cells would fail, hours later."""
    text = FILE.format(wire="{delay: 1ms}").replace("duration: 1s", f"duration: 1s, {kind}: [near.eth0]")
    path = tmp_path / "path.yaml"
    path.write_text(text)
    load(path)
    moved = "links.path.ends: [near.eth1, far.eth0]"
    path.write_text(f"{text}factors: {{port: {{first: {{}}, second: {{{moved}}}}}}}\n")
    with pytest.raises(InputError, match=rf"measure.up.{kind}.0: saw near.eth0; allowed: a link, or a port"):
        load(path)


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        (
            "watch: [near.eth0, far.eth0]",
            "far.eth0 in addition to near.eth0; allowed: only one watch on link path",
        ),
        ("watch: [path, path]", "path in addition to path; allowed: only one watch on link path"),
        ("capture: [path, far.eth0]", "far.eth0 in addition to path; allowed: only one capture on link path"),
        ("capture: [near.eth0, far.eth0]", ""),
        ("watch: [path], capture: [path]", ""),
    ],
)
def test_duplicate_watch_or_capture_of_a_port_is_refused(tmp_path: Path, looks: str, said: str) -> None:
    """Refuse it: a watch of a link with two ends covers both directions."""
    text = FILE.format(wire="{delay: 1ms}").replace("duration: 1s", f"duration: 1s, {looks}")
    path = tmp_path / "path.yaml"
    path.write_text(text)
    if not said:
        load(path)
        return
    with pytest.raises(InputError) as caught:
        load(path)
    assert said in str(caught.value)
