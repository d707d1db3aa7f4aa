"""Profiler samples: folded on the host, then figures; and the machines of a profile."""

import subprocess
from pathlib import Path

import pytest

from iolab.experiment import Resolver, parse
from iolab.lab.requirements.need import Need
from iolab.lab.requirements.part_needs import profile_needs, profiled_kernels
from iolab.messages.places import ForMeasure
from iolab.messages.unmet import ImageNotInstalled
from iolab.trial.instruments.profile import (
    FOLD,
    function_metrics,
    functions,
    hidden_ratio,
    stacks_in,
    wait_metrics,
    waits_in,
)

SAID = """\
         swapper     0   100.000000:
\tffffffff81000010 default_idle ([kernel.kallsyms])
\tffffffff81000020 do_idle ([kernel.kallsyms])

CPU 0/TCG 19622   100.500000:
\t    7f6a26527ed3 [unknown] (/tmp/perf-19605.map)

     vhost-19600 19700   101.000000:
\tffffffff81000030 [unknown] ([kernel.kallsyms])
\tffffffff81000040 vhost_worker ([vhost])

     vhost-19600 19700   101.500000:
\tffffffff81000050 copy;page ([kernel.kallsyms])
\tffffffff81000040 vhost_worker ([vhost])

 vhost-19600 19700 [001] 101.6: PERF_RECORD_LOST lost 7
     vhost-19600 19700   102.000000:
\tffffffff81000050 copy;page ([kernel.kallsyms])
\tffffffff81000040 vhost_worker ([vhost])

"""
CONTENDED = """\
 contended   total wait     max wait     avg wait         type   caller

       309    148.91 ms      3.55 ms    481.91 us     spinlock   napi_threaded_poll+0x61
         2      1.50 us      1.00 us    750.00 ns        mutex   __netlink_dump_start+0x10
output for debug
"""


@pytest.fixture
def folded(tmp_path: Path) -> str:
    """Fold perf's output with the script that runs on a kernel."""
    (tmp_path / "said.txt").write_text(SAID)
    (tmp_path / "perf.data").write_bytes(b"x")
    (tmp_path / "perf").write_text("#!/bin/sh\ncat " + str(tmp_path / "said.txt") + "\n")
    (tmp_path / "perf").chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", FOLD, tmp_path], env=path, capture_output=True, text=True, check=True)
    return done.stdout


def test_profile_samples_are_folded_from_the_outermost_function(folded: str) -> None:
    """Keep names with blanks; escape separators; count lost samples."""
    found = stacks_in(folded)
    assert found.counts == {
        ("swapper", "do_idle_[k]", "default_idle_[k]"): 1,
        ("CPU 0/TCG", "[perf-19605.map]"): 1,
        ("vhost-19600", "vhost_worker_[k]", "[kernel]"): 1,
        ("vhost-19600", "vhost_worker_[k]", "copy:page_[k]"): 2,
    }
    assert (found.lost, found.span_ns, found.samples) == (7, 2_000_000_000, 5)
    assert hidden_ratio(found) == 0.25


def test_profile_figure_is_the_cpu_share_of_a_function_itself(folded: str) -> None:
    """Exclude idle CPUs."""
    found = stacks_in(folded)
    assert functions(found, 2)[0] == ("vhost-19600", "copy:page_[k]", 0.5)
    metrics = {(one.name, one.dimensions.part): one.value for one in function_metrics("dut", found, 2)}
    assert metrics["profile_self_ratio", "[kernel]"] == 0.25
    assert metrics["profile_lost_samples", None] == 7
    assert not any(part == "default_idle_[k]" for _, part in metrics)


def test_profile_without_enough_samples_has_no_functions() -> None:
    """Require two samples."""
    assert functions(stacks_in("# 0 0\n1\tiperf3;main\n"), 99) == []
    assert functions(stacks_in(""), 99) == []


def test_lock_waits_are_parsed_per_waiting_function() -> None:
    """Convert perf's units; skip other lines."""
    found = waits_in(CONTENDED)
    assert [(one.caller, one.kind, one.contended) for one in found] == [
        ("napi_threaded_poll", "spinlock", 309), ("__netlink_dump_start", "mutex", 2),
    ]  # fmt: skip
    whole, first, _ = wait_metrics("", found)
    assert whole.value == pytest.approx(148_911_500)
    assert (first.dimensions.part, first.value) == ("napi_threaded_poll (spinlock)", 148_910_000)
    assert waits_in("no such tracepoint") == []


LAB = """
lab:
  machines: {near: {kind: netns}, dut: {kind: vm}, other: {kind: vm, install: [linux-perf]}}
  links: {one: {ends: [near.p0, dut.eth0]}, two: {ends: [near.p1, other.eth0]}}
measure: {tcp: {kind: stream, from: near, to: dut, instruments: [profile]}}
"""


def test_profile_covers_the_local_host_and_guests_with_perf() -> None:
    """Refuse a machine without perf at planning, with a remedy."""
    lab = Resolver(parse(LAB, "f.yaml")).setup({}).lab
    assert profiled_kernels(lab, ()) == ("", "other")
    assert profiled_kernels(lab, ("near",)) == ("",)
    here, there = (list(profile_needs(lab, (name,), ForMeasure(measure="tcp"))) for name in ("near", "dut"))
    assert [one.name for one in here if isinstance(one, Need)] == ["perf", "perf"]
    (lack,) = there
    assert isinstance(lack, ImageNotInstalled)
    assert (lack.machine, lack.package) == ("dut", "linux-perf")
