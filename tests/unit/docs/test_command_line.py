"""docs/reference/command-line.md agrees with `--help`: commands, arguments, options, exit codes."""

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


def test_command_line_page_lists_every_command(help_of: Help) -> None:
    """List no other command."""
    assert set(COMMANDS) == help_of.commands()


@pytest.mark.parametrize("command", COMMANDS)
def test_command_line_page_shows_the_arguments_of_every_command(command: str, help_of: Help) -> None:
    """Compare each command with its usage line."""
    assert COMMANDS[command].split() == help_of.arguments(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_line_page_lists_every_option(command: str, help_of: Help) -> None:
    """List long and short options of each section, and no others."""
    first_cells = re.findall(r"^\| (`-[^|]*)\|", section(command), re.MULTILINE)
    told = {option for cell in first_cells for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", cell)}
    assert told == help_of.options(command)


def test_command_line_page_lists_the_commands_and_options_of_image(help_of: Help) -> None:
    """List each command of the group with its options, and no others."""
    text = section("image")
    assert set(re.findall(r"^\| `image ([a-z]+)", text, re.MULTILINE)) == help_of.commands("image")
    options = re.findall(r"^\| ([a-z]+) \| `(--[a-z]+)`", text, re.MULTILINE)
    seen = {(name, option) for name in help_of.commands("image") for option in help_of.options("image", name)}
    assert set(options) == seen


def test_help_parser_finds_both_forms_of_an_option(help_of: Help) -> None:
    """Check the parser of `--help`."""
    assert {"--output", "-o", "--blocks"} <= help_of.options("run")


def test_command_line_page_lists_every_exit_code() -> None:
    """List no other exit code."""
    told = re.findall(r"^\| (\d) \|", section("Exit codes"), re.MULTILINE)
    assert [int(code) for code in told] == [code.value for code in ExitCode]
