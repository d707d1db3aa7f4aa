"""Flame graphs: boxes as wide as their part of the samples, whatever functions are called, within the page's share."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.unit.report.conftest import Made

from iolab.report import formats as report
from iolab.report.locale import EN
from iolab.report.names import names_of
from iolab.report.page.flames import flames
from iolab.store.read import stacks_of
from iolab.store.records import SAMPLES

FOLDED = """# 0 1000
6\tiperf3;main;write_[k]
2\tiperf3;main
2\tvhost;<b>&x
90\tswapper;idle_[k]
1\tbroken

nonsense
"""


def test_a_box_is_as_wide_as_its_part_and_names_cannot_leave_it(made: Made) -> None:
    """Idle CPUs are left out; what stands in a name is text, whatever it is."""
    run, _, _ = made
    key = run.trials[0].key
    found = flames(run.trials, lambda one: {"": FOLDED} if one == key else {}, names_of(run.plan, EN))
    (flame,) = found.flames
    root = ET.fromstring(str(flame.svg))
    widths = {
        each.findtext("g/text"): each.get("width") for each in root.iter("svg") if each.find("g") is not None
    }
    assert widths == {
        "iperf3": "72.73%", "main": "100.00%", "write_[k]": "75.00%", "vhost": "18.18%", "<b>&x": "100.00%",
        "broken": "9.09%",
    }  # fmt: skip
    titles = [each.text for each in root.iter("title")]
    assert "write_[k]: 55\u00a0%" in titles
    assert found.notes[-1] == EN.text("profile.note")


def test_a_page_has_the_flame_graphs_that_fit(made: Made) -> None:
    """And says how many there are; a page without a profile has no word of it."""
    run, analysis, experiment = made
    wide = "".join(f"1\tthread{number};{'f' * 200}{number}\n" for number in range(200))
    page = report.html(run, analysis, experiment, "1", read_stacks=lambda _: {"": wide})
    assert 1 < page.count('class="flame"') < len(run.trials)
    assert re.search(r"Flame graphs shown: \d+ of \d+", page)
    assert 'class="flame"' not in report.html(run, analysis, experiment, "1")


def test_stacks_are_read_by_machine_from_beside_the_samples(tmp_path: Path) -> None:
    """This computer's file names no machine; a key that is a path reads nothing."""
    (tmp_path / SAMPLES).mkdir()
    (tmp_path / SAMPLES / "k.profile.folded").write_text("1\ta;b\n")
    (tmp_path / SAMPLES / "k.profile.dut.folded").write_text("2\tc\n")
    assert stacks_of(tmp_path)("k") == {"": "1\ta;b\n", "dut": "2\tc\n"}
    assert stacks_of(tmp_path)("../k") == {}
