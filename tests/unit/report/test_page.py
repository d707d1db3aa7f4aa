"""The HTML page as text; tests/browser looks at it in a browser."""

import itertools
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import altair as alt
import pytest
from tests.unit.report.builder import quickstart
from tests.unit.report.conftest import Made
from tests.unit.report.pages import charts_of, parsed
from tests.work import counted

from iolab.analysis import analyse
from iolab.experiment import load, parse
from iolab.messages.failures import OtherFailure
from iolab.messages.notes import LastLineCut
from iolab.report import drawing, environment, picture
from iolab.report import formats as report
from iolab.report.locale import EN
from iolab.report.names import names
from iolab.results.metric import Metrics, Quantity
from iolab.results.trial import CommandRecord, Status

EVIL = '</script><img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def page(made: Made) -> str:
    """Return the quickstart's page."""
    run, analysis, experiment = made
    return report.html(run, analysis, experiment, "1.2.3")


def test_html_page_fetches_no_resource(page: str) -> None:
    """Check every reference, and the content security policy."""
    elements = parsed(page)
    for _, attributes in elements.found:
        for name in ("src", "href", "srcset", "action", "data"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:,")), (name, value)
    policy = next(each["content"] for each in elements.named("meta") if each.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    style = page.split("<style>")[1].split("</style>", maxsplit=1)[0]
    assert "url(" not in style
    assert "@import" not in style


def test_page_sections_are_in_the_documented_order(page: str) -> None:
    """Begin with the summary; check the target of every contents link."""
    ids = [each["id"] for each in parsed(page).named("section")]
    assert ids == [
        "summary", "results", "charts", "effects", "lab", "meanings", "troubles", "environment", "commands", "repeat",
    ]  # fmt: skip
    targets = {each["href"] for each in parsed(page).named("a")}
    assert targets == {f"#{each}" for each in ids}


def test_headings_descend_one_level_at_a_time(page: str) -> None:
    """Support screen readers: one h1, and no skipped level."""
    levels = [int(tag[1]) for tag, _ in parsed(page).found if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))


def test_tables_have_scopes_and_captions_and_pictures_have_alternative_texts(page: str) -> None:
    """Check every table and every picture."""
    elements = parsed(page)
    assert all(each.get("scope") in ("col", "row") for each in elements.named("th"))
    assert len(list(elements.named("caption"))) == len(list(elements.named("table")))
    pictures = [attributes for _, attributes in elements.found if attributes.get("role") == "img"]
    assert len(pictures) > 4
    assert all(each.get("aria-label") for each in pictures)


def test_charts_contain_every_valid_trial_of_the_leading_metric(page: str, made: Made) -> None:
    """Include one point per valid trial."""
    _, analysis, _ = made
    points = 0
    for chart in charts_of(page)[:2]:
        points += sum(len(panel["data"]["points"]) for panel in chart["panels"])
    assert (
        points == sum(each.n for each in analysis.estimates if each.metric == Quantity("received_bps")) == 158
    )


def test_charts_conform_to_the_vega_lite_schema(page: str) -> None:
    """Validate them, because the report does not."""
    for chart in charts_of(page):
        alt.LayerChart.from_dict(chart["spec"])


def test_html_in_user_text_is_escaped() -> None:
    """Escape a title, a level, a command, a reason and a fact that look like HTML."""
    labels = ("one-way", EVIL)
    factors = {"*.direction": labels, "links.lan.mtu": ("1500", "9000"), "links.lan.offload": ("on", "off")}
    run, experiment = quickstart(4, factors=factors, title=EVIL)
    command = CommandRecord(
        machine=EVIL, netns=EVIL, argv=("echo", EVIL), undo=(EVIL,), exit_status=1, duration_ns=1
    )
    failed = replace(
        run.trials[0],
        result=replace(
            run.trials[0].result, status=Status.FAILED, reason=OtherFailure(said=EVIL), metrics=Metrics()
        ),
    )
    evil = replace(
        run,
        commands=(command,),
        facts={EVIL: EVIL, "x": {EVIL: [EVIL]}},
        notes=(LastLineCut(file=EVIL),),
        trials=(failed, *run.trials[1:]),
    )
    text = report.html(evil, analyse(evil.trials, evil.plan), experiment, EVIL)
    elements = parsed(text)
    assert not list(elements.named("img"))
    assert not [name for _, attributes in elements.found for name in attributes if name.startswith("on")]
    assert "".join(elements.texts).count(EVIL) >= 8
    assert text.count("<script") == text.count("</script") == len(list(elements.named("script")))


def test_equal_commands_are_merged_and_shown_with_their_undo(page: str) -> None:
    """List a command of eight cells once, with its count."""
    shown = " ".join("".join(parsed(page).texts).split())
    assert "ip link set dev eth0 mtu 9000 ×8undone by ip link set dev eth0 mtu 1500" in shown


def test_lab_drawing_shows_ports_addresses_and_varied_attributes(page: str) -> None:
    """Draw the machines, their ports and addresses, and the varied levels."""
    drawing = page.split('<svg class="lab"')[1].split("</svg>", maxsplit=1)[0]
    for text in ("near", "far", "idle", "eth0", "198.18.0.1/24", "bridge", "MTU 1500 / 9000"):
        assert text in drawing


def test_page_of_a_large_run_is_bounded_and_states_the_omission() -> None:
    """Show the most different of 600 cells, state their number, and bound the work."""
    factors = {
        "*.direction": tuple(f"d{number}" for number in range(30)),
        "links.lan.mtu": tuple(str(number) for number in range(1500, 1510)),
        "links.lan.offload": ("on", "off"),
    }
    run, experiment = quickstart(3, factors=factors, outlier=False)
    analysis = analyse(run.trials, run.plan)
    with counted() as work:
        text = report.html(run, analysis, experiment, "1.2.3")
    assert work.calls < 6_000_000
    assert "Shown: 200 of 600 cells" in text
    assert "The chart shows 480 of 600 cells" in text
    assert len(text) < 15_000_000


def test_drawing_of_a_wide_lab_fits_the_page_width() -> None:
    """Stack seven machines, which exceed 1280 px, and connect every port with its link."""
    experiment = load(Path(__file__).parents[3] / "labs" / "rate-control.yaml")
    named = names([factor.name for factor in experiment.factors], EN)
    seen = picture.picture(experiment, named)
    drawn = drawing.draw(seen, named).svg
    root = ET.fromstring(drawn)
    width = float(root.attrib["viewBox"].split()[2])
    assert width <= drawing.WIDEST
    tag = "{http://www.w3.org/2000/svg}"
    rights = [float(each.attrib["x2"]) for each in root.iter(f"{tag}line")]
    boxes = [each for each in root.iter(f"{tag}rect") if each.attrib["class"] == "box"]
    tops = [float(each.attrib["y"]) for each in boxes]
    ends = [top + float(each.attrib["height"]) for top, each in zip(tops, boxes, strict=True)]
    assert len(boxes) == 7
    assert all(end < top for end, top in zip(ends, tops[1:], strict=False))
    assert sum(each.attrib["class"] == "dot" for each in root.iter(f"{tag}circle")) == 12
    assert max(rights) <= width


def test_lab_drawing_shows_the_disks_of_a_guest() -> None:
    """Show name and size next to the machine kind; count more than two."""
    text = """\
lab:
  machines:
    t: {kind: netns}
    dut: {kind: vm, disks: [DISKS]}
  links: {lan: {ends: [t.p0, dut.eth0]}}
  volumes: {VOLUMES}
measure: {tcp: {kind: stream, from: t, to: dut, duration: 1s}}
"""
    kinds = []
    for count in (1, 3):
        disks = ", ".join(f"{{volume: v{number}}}" for number in range(count))
        volumes = ", ".join(f"v{number}: {{size: 256M}}" for number in range(count))
        experiment = parse(text.replace("DISKS", disks).replace("VOLUMES", volumes), "disks.yaml")
        seen = picture.picture(experiment, names([], EN))
        kinds.append(next(box.kind for box in seen.boxes if box.name == "dut"))
    assert kinds == ["virtual machine, disk v0 256M", "virtual machine, 3 disks"]


def test_lab_drawing_shows_the_commands_and_services_of_a_machine() -> None:
    """Show commands and services by name, without those missing in the baseline."""
    text = """\
lab:
  machines:
    web: {kind: netns, run: {hole: {do: ['true'], undo: ['true']}, off: none}, services: {http: {run: [x]}}}
    t: {kind: netns}
  links: {lan: {ends: [t.p0, web.eth0]}}
measure: {tcp: {kind: stream, from: t, to: web, duration: 1s}}
"""
    seen = picture.picture(parse(text, "web.yaml"), names([], EN))
    assert [box.kind for box in seen.boxes] == ["namespace, commands: hole, services: http", "namespace"]


def test_environment_section_of_the_page_lists_the_offloads_of_interfaces() -> None:
    """List on and off in one line each, because an interface has fifty."""
    facts = {"interfaces": [{"name": "eth0", "mtu": 1500, "offloads": {"tso": True, "gro": False, "gso": True}},
                            {"name": "lo", "offloads": {}}]}  # fmt: skip
    (interfaces,) = environment.entries(facts, EN)
    eth0, lo = interfaces.parts
    told = {part.name: part for part in eth0.parts}
    assert [(each.name, each.text) for each in told["offloads"].parts] == [("on", "tso, gso"), ("off", "gro")]
    assert "offloads" not in {part.name for part in lo.parts}
