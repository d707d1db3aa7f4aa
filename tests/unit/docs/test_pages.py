"""The pages of docs/, README.md and the labs: experiments are valid, named commands and files exist."""

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
"""Pages whose links are checked."""
HEADING = re.compile(r"^#+ +(?P<text>.+?)\s*$", re.MULTILINE)
PATH = re.compile(
    r"`(?P<path>(?:benches|contract|crates|docs|examples|guest|labs|python|scripts|tests)/[\w./-]+)`"
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def experiments() -> Iterator[tuple[str, str]]:
    """Yield place and text of every experiment on a page."""
    for page in PAGES:
        for line, text in experiments_on(page):
            yield f"{name_of(page)}:{line}", text


KEYS_ARE_OPTIONS = "quick"
"""A command with options of every measure and link; its examples on pages are run."""


def calls(page: Path) -> Iterator[str]:
    """Yield every call of iolab on a page, without the program's name."""
    text = page.read_text(encoding="utf-8")
    found = [call for body in FENCE.sub("", text).splitlines() for call in INLINE.findall(body)]
    for block in FENCE.finditer(text):
        if block["language"] in ("sh", "console"):
            found += [match["line"] for match in SHELL_LINE.finditer(block["text"])]
    for call in found:
        yield re.split(r"iolab\s+", call.partition("#")[0].partition("|")[0], maxsplit=1)[1].strip()


@pytest.mark.parametrize(("where", "text"), [pytest.param(*each, id=each[0]) for each in experiments()])
def test_experiments_on_documentation_pages_pass_check(where: str, text: str, tmp_path: Path) -> None:
    """Check an experiment that a reader copies, with a capture of their own."""
    (tmp_path / "trace.pcap").write_bytes(CAPTURE)
    assert next(cells(parse(text, str(tmp_path / where.replace("/", "-"))))) is not None


def test_page_search_finds_the_experiments_on_documentation_pages() -> None:
    """Check the search: a tutorial without an experiment would be empty."""
    pages = {where.rpartition(":")[0] for where, _ in experiments()}
    assert {"README.md", "docs/tutorial/first-experiment.md"} <= pages


def test_readme_names_every_lab() -> None:
    """List every lab, so that readers find it."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [lab.name for lab in LABS if f"(labs/{lab.name})" not in readme] == []


@pytest.mark.parametrize("lab", [pytest.param(lab, id=lab.name) for lab in LABS])
def test_labs_pass_check_and_have_a_valid_baseline(lab: Path) -> None:
    """Check every file in labs/, and that one of its cells has the baseline."""
    experiment = parse(lab.read_text(encoding="utf-8"), lab.name)
    assert experiment.baseline
    assert any(experiment.baseline.items() <= cell.items() for cell in cells(experiment))


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in PAGES])
def test_commands_and_options_on_pages_exist(page: Path, help_of: Help) -> None:
    """Check every typed command and its options."""
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
    """Return GitHub's anchors of the headings of a page; headings with equal text are numbered."""
    slugs: list[str] = []
    for heading in HEADING.finditer(outside_code(page)):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading["text"]).lower()
        slugs.append(re.sub(r"[^\w -]", "", text).replace(" ", "-"))
    return {
        f"{slug}-{slugs[:at].count(slug)}" if slug in slugs[:at] else slug for at, slug in enumerate(slugs)
    }


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in LINKED])
def test_links_on_documentation_pages_lead_to_existing_targets(page: Path) -> None:
    """Check that linked files exist, and that anchors are headings of them."""
    for link in LINK.finditer(re.sub(r"`[^`]*`", "", outside_code(page))):
        if "://" in link["target"]:
            continue
        target = (page.parent / link["target"]).resolve() if link["target"] else page
        assert target.exists(), f"{name_of(page)} links to {link['target']}"
        assert link["anchor"] is None or link["anchor"] in anchors(target), f"{name_of(page)}: {link[0]}"


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in LINKED])
def test_repository_paths_on_pages_exist(page: Path) -> None:
    """Check files and folders in backticks; capitals match any name."""
    named = (Path(match["path"]) for match in PATH.finditer(outside_code(page)))
    paths = [path for path in named if not any(Path(part).stem.isupper() for part in path.parts)]
    assert [str(path) for path in paths if not (ROOT / path).exists()] == []


def test_docs_index_links_to_every_page() -> None:
    """Exclude only the decisions, which are linked as a folder."""
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / target).resolve() for target, _ in LINK.findall(index)}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "adr"}
    assert {name_of(page) for page in pages - linked} == {"docs/README.md"}
