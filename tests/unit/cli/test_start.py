"""How much is loaded before a command does anything: what is slow to load waits until it is needed."""

import os
import subprocess
import sys

import pytest

from iolab.cli.commands import COMMANDS, loaded

SLOW = ("asyncio", "jinja2", "numpy", "pandas", "pyarrow", "scipy", "ssl", "statsmodels", "vl_convert")
"""Each takes 50 to 400 ms to load, more than all else that a command needs to read a file."""


def test_the_command_line_starts_without_what_only_figures_need() -> None:
    """`iolab --help`, `check` and `plan` make no figures and ask no monitor."""
    script = f"import sys, iolab.cli.main; print(*sys.modules.keys() & set({SLOW}))"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == []


def test_a_shell_completes_the_name_of_a_command_without_reading_an_option() -> None:
    """Options are read with pydantic, which costs as much as all else."""
    script = (
        "import atexit, sys; sys.argv = ['iolab']\n"
        "atexit.register(lambda: print('pydantic' in sys.modules, file=sys.stderr))\n"
        "from iolab.cli.main import main; main()"
    )
    asked = {"_IOLAB_COMPLETE": "complete_bash", "COMP_WORDS": "iolab ch", "COMP_CWORD": "1"}
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, env=os.environ | asked, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("check\n", "False\n")


def test_listing_commands_loads_none_of_them() -> None:
    """`--help` and a shell's completion read a table: no module of the experiment language, of labs or of reports."""
    script = "import sys, iolab.cli.main; print(*(name for name in sys.modules if name.startswith('iolab.')))"
    listed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert not [
        name
        for name in listed.split()
        if not name.startswith(("iolab.cli", "iolab.errors", "iolab.locale", "iolab.printable"))
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_says_what_the_command_itself_says(name: str) -> None:
    """The first paragraph of a command's help is the line that `iolab --help` shows."""
    help_text = loaded(name).help
    assert help_text is not None
    assert " ".join(help_text.split("\n\n")[0].split()) == COMMANDS[name].help
