"""docs/reference/command-line.md says exactly what `--help` says: commands, arguments, options, exit codes."""

import re
from pathlib import Path

import pytest
from tests.unit.docs.conftest import Help

from iolab.errors import ExitCode

PAGE = (Path(__file__).parents[3] / "docs/reference/command-line.md").read_text(encoding="utf-8")
COMMANDS = dict(re.findall(r"^\| `iolab ([a-z-]+)([^`]*)`", PAGE, re.MULTILINE))


def section(heading: str) -> str:
    """Return the text below a heading, up to the next."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no section {heading}"
    return found[1]


def test_the_page_has_every_command(help_of: Help) -> None:
    """The table of commands holds those of `iolab --help`, and no others."""
    assert set(COMMANDS) == help_of.commands()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_has_every_argument(command: str, help_of: Help) -> None:
    """The table of commands shows each command with its arguments, as the usage line does."""
    assert COMMANDS[command].split() == help_of.arguments(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_has_every_option(command: str, help_of: Help) -> None:
    """A command's section has its options, long and short, and no others."""
    first_cells = re.findall(r"^\| (`-[^|]*)\|", section(command), re.MULTILINE)
    told = {option for cell in first_cells for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", cell)}
    assert told == help_of.options(command)


def test_the_page_has_the_commands_and_options_of_image(help_of: Help) -> None:
    """The section of a group of commands has each of them, with its options, and no others."""
    text = section("image")
    assert set(re.findall(r"^\| `image ([a-z]+)", text, re.MULTILINE)) == help_of.commands("image")
    options = re.findall(r"^\| ([a-z]+) \| `(--[a-z]+)`", text, re.MULTILINE)
    seen = {(name, option) for name in help_of.commands("image") for option in help_of.options("image", name)}
    assert set(options) == seen


def test_options_are_found_at_all(help_of: Help) -> None:
    """The reading of `--help` works: both forms of an option are seen."""
    assert {"--output", "-o", "--blocks"} <= help_of.options("run")


def test_the_page_has_every_exit_code() -> None:
    """The table of exit codes holds every code, and no other."""
    told = re.findall(r"^\| (\d) \|", section("Exit codes"), re.MULTILINE)
    assert [int(code) for code in told] == [code.value for code in ExitCode]
