"""The pages of docs/, README.md and the labs: experiments in them are right, commands and files they name exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pages import CAPTURE, FENCE, PAGES, ROOT, experiments_on, name_of
from tests.unit.docs.conftest import Help

from iolab.experiment import cells, parse

LABS = sorted((ROOT / "labs").glob("*.yaml"))
INLINE = re.compile(r"`(iolab [^`]+)`")
SHELL_LINE = re.compile(r"^(?:\$ )?(?:\w+=\$\()?(?P<line>(?:\.venv/bin/)?iolab [^\n]*)", re.MULTILINE)
LINK = re.compile(r"\]\((?P<target>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
LINKED = sorted([*PAGES, *(ROOT / "contract").glob("*.md"), *(ROOT / "benches").rglob("*.md")])
"""Pages whose links are followed."""
HEADING = re.compile(r"^#+ +(?P<text>.+?)\s*$", re.MULTILINE)
PATH = re.compile(
    r"`(?P<path>(?:benches|contract|crates|docs|examples|guest|labs|python|scripts|tests)/[\w./-]+)`"
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def experiments() -> Iterator[tuple[str, str]]:
    """Yield where and what of every experiment on a page."""
    for page in PAGES:
        for line, text in experiments_on(page):
            yield f"{name_of(page)}:{line}", text


KEYS_ARE_OPTIONS = "quick"
"""A command with options of every measure and link; what pages show of it is run."""


def calls(page: Path) -> Iterator[str]:
    """Yield every call of iolab that a page shows, without the program's name."""
    text = page.read_text(encoding="utf-8")
    found = [call for body in FENCE.sub("", text).splitlines() for call in INLINE.findall(body)]
    for block in FENCE.finditer(text):
        if block["language"] in ("sh", "console"):
            found += [match["line"] for match in SHELL_LINE.finditer(block["text"])]
    for call in found:
        yield re.split(r"iolab\s+", call.partition("#")[0].partition("|")[0], maxsplit=1)[1].strip()


@pytest.mark.parametrize(("where", "text"), [pytest.param(*each, id=each[0]) for each in experiments()])
def test_an_experiment_on_a_page_is_right(where: str, text: str, tmp_path: Path) -> None:
    """A reader who copies an experiment, beside a capture of their own, can check it without a complaint."""
    (tmp_path / "trace.pcap").write_bytes(CAPTURE)
    assert next(cells(parse(text, str(tmp_path / where.replace("/", "-"))))) is not None


def test_there_are_experiments_on_the_pages() -> None:
    """The search for experiments finds them: a tutorial without one would be none."""
    pages = {where.rpartition(":")[0] for where, _ in experiments()}
    assert {"README.md", "docs/tutorial/first-experiment.md"} <= pages


def test_the_readme_names_every_lab() -> None:
    """What nobody finds is not there."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [lab.name for lab in LABS if f"(labs/{lab.name})" not in readme] == []


@pytest.mark.parametrize("lab", [pytest.param(lab, id=lab.name) for lab in LABS])
def test_a_lab_is_right(lab: Path) -> None:
    """Every file in labs/ passes the check, and has a baseline that one of its cells holds."""
    experiment = parse(lab.read_text(encoding="utf-8"), lab.name)
    assert experiment.baseline
    assert any(experiment.baseline.items() <= cell.items() for cell in cells(experiment))


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in PAGES])
def test_commands_and_options_on_a_page_exist(page: Path, help_of: Help) -> None:
    """What a page tells to type is a command, with options that it has."""
    known = help_of.commands()
    for call in calls(page):
        word = call.split()[0]
        if word.startswith("-") or word in ("COMMAND", KEYS_ARE_OPTIONS):
            continue
        assert word in known, f"{name_of(page)} names `iolab {call}`"
        command = [word, *(second for second in call.split()[1:2] if second in help_of.commands(word))]
        unknown = set(OPTION.findall(call)) - help_of.options(*command) - {"--help"}
        assert not unknown, f"{name_of(page)} names `iolab {call}`"


def outside_code(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page; headings of one text are numbered."""
    slugs: list[str] = []
    for heading in HEADING.finditer(outside_code(page)):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading["text"]).lower()
        slugs.append(re.sub(r"[^\w -]", "", text).replace(" ", "-"))
    return {
        f"{slug}-{slugs[:at].count(slug)}" if slug in slugs[:at] else slug for at, slug in enumerate(slugs)
    }


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in LINKED])
def test_links_on_a_page_lead_somewhere(page: Path) -> None:
    """A link to another file of the repository names one that exists; an anchor names one of its headings."""
    for link in LINK.finditer(re.sub(r"`[^`]*`", "", outside_code(page))):
        if "://" in link["target"]:
            continue
        target = (page.parent / link["target"]).resolve() if link["target"] else page
        assert target.exists(), f"{name_of(page)} links to {link['target']}"
        assert link["anchor"] is None or link["anchor"] in anchors(target), f"{name_of(page)}: {link[0]}"


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in LINKED])
def test_paths_on_a_page_exist(page: Path) -> None:
    """A file or folder of the repository that a page names between backticks exists; capitals stand for any name."""
    named = (Path(match["path"]) for match in PATH.finditer(outside_code(page)))
    paths = [path for path in named if not any(Path(part).stem.isupper() for part in path.parts)]
    assert [str(path) for path in paths if not (ROOT / path).exists()] == []


def test_every_page_is_in_the_index() -> None:
    """docs/README.md leads to every page but the decisions, which it names as a folder."""
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / target).resolve() for target, _ in LINK.findall(index)}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "adr"}
    assert {name_of(page) for page in pages - linked} == {"docs/README.md"}
