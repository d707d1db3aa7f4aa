"""Flame graphs: box widths are sample shares, for any function names, within the page's limit."""

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


def test_flame_graph_box_width_is_its_sample_share_and_names_are_escaped(made: Made) -> None:
    """Leave idle CPUs out; escape any name."""
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


def test_page_shows_as_many_flame_graphs_as_fit(made: Made) -> None:
    """State their number; mention none without a profile."""
    run, analysis, experiment = made
    wide = "".join(f"1\tthread{number};{'f' * 200}{number}\n" for number in range(200))
    page = report.html(run, analysis, experiment, "1", read_stacks=lambda _: {"": wide})
    assert 1 < page.count('class="flame"') < len(run.trials)
    assert re.search(r"Flame graphs shown: \d+ of \d+", page)
    assert 'class="flame"' not in report.html(run, analysis, experiment, "1")


def test_profile_stacks_are_read_per_machine(tmp_path: Path) -> None:
    """Read the local file without a machine name; read nothing for a key that is a path."""
    (tmp_path / SAMPLES).mkdir()
    (tmp_path / SAMPLES / "k.profile.folded").write_text("1\ta;b\n")
    (tmp_path / SAMPLES / "k.profile.dut.folded").write_text("2\tc\n")
    assert stacks_of(tmp_path)("k") == {"": "1\ta;b\n", "dut": "2\tc\n"}
    assert stacks_of(tmp_path)("../k") == {}
