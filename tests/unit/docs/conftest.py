"""Help texts of the command line, for comparing pages with them."""

import re
from typing import ClassVar

import pytest

from iolab.cli.main import run

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ROW = re.compile(r"^│[\s*]+(?P<long>--[a-z-]+)(?:\s+(?P<short>-[a-z])\b)?", re.MULTILINE)
COMMAND = re.compile(r"^│ (?P<name>[a-z-]+)\s{2,}", re.MULTILINE)


class Help:
    """Calls `--help`, once for each command."""

    _texts: ClassVar[dict[tuple[str, ...], str]] = {}

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def text(self, *command: str) -> str:
        """Return the output of `iolab COMMAND --help`, without colours."""
        if command not in self._texts:
            assert run([*command, "--help"]) == 0
            self._texts[command] = COLOUR.sub("", self._capsys.readouterr().out)
        return self._texts[command]

    def commands(self, *group: str) -> set[str]:
        """Return the names of all commands, or of those of a group."""
        return {found["name"] for found in COMMAND.finditer(self.text(*group).partition(" Commands ")[2])}

    def arguments(self, command: str) -> list[str]:
        """Return the arguments of a command, as its usage line names them."""
        usage = re.search(rf"Usage:.* {command}\b(.*)", self.text(command))
        assert usage is not None
        return re.findall(r"\{(\w+)\}", usage[1])

    def options(self, *command: str) -> set[str]:
        """Return the options of a command, long and short, without --help."""
        rows = ROW.finditer(self.text(*command))
        return {option for row in rows for option in row.groups() if option} - {"--help", "-h"}


@pytest.fixture
def help_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Help:
    """Return the command line's help, printed wide enough not to be truncated."""
    monkeypatch.setenv("COLUMNS", "200")
    return Help(capsys)
