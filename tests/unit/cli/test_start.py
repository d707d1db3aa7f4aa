"""Modules loaded at the start of a command: slow ones are loaded only when needed."""

import os
import subprocess
import sys

from typer.core import TyperArgument, TyperGroup, TyperOption

from iolab.cli.commands import COMMANDS, NAME, loaded
from iolab.cli.language import help_texts, parameter_name

SLOW = ("asyncio", "jinja2", "numpy", "pandas", "pyarrow", "scipy", "ssl", "statsmodels", "vl_convert")
"""Modules that each take 50 to 400 ms to load, more than all else that a command needs to read a file."""


def test_command_line_starts_without_loading_analysis_modules() -> None:
    """Load no figures and no monitor for `iolab --help`, `check` and `plan`."""
    script = f"import sys, iolab.cli.main; print(*sys.modules.keys() & set({SLOW}))"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == []


def test_shell_completion_of_a_command_does_not_load_pydantic() -> None:
    """Skip pydantic, which parses options and costs as much as all else."""
    script = (
        "import atexit, sys; sys.argv = ['iolab']\n"
        "atexit.register(lambda: print('pydantic' in sys.modules, file=sys.stderr))\n"
        "from iolab.cli.main import main; main()"
    )
    asked = {"_IOLAB_COMPLETE": "complete_bash", "COMP_WORDS": "iolab ch", "COMP_CWORD": "1"}
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, env=os.environ | asked, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("check\n", "False\n")


def test_listing_commands_loads_no_command_module() -> None:
    """Read a table for `--help` and for completion, without modules of the language, labs or reports."""
    script = "import sys, iolab.cli.main; print(*(name for name in sys.modules if name.startswith('iolab.')))"
    listed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert not [
        name
        for name in listed.split()
        if not name.startswith(("iolab.cli", "iolab.errors", "iolab.locale", "iolab.printable"))
    ]


def test_help_texts_agree_with_commands_options_and_arguments() -> None:
    """Compare the names in help.toml with those of the command line, except typer's own options."""
    texts = help_texts()
    found = {NAME, *COMMANDS, "--lang", "--version"}
    commands = {name: loaded(name) for name in COMMANDS}
    while commands:
        name, command = commands.popitem()
        found.add(name)
        if isinstance(command, TyperGroup):
            commands |= {f"{name}-{inner}": one for inner, one in command.commands.items()}
        for one in command.params:
            assert isinstance(one, TyperArgument | TyperOption)
            assert one.help, f"{name}: {one.name}"
            key = parameter_name(one)
            found.add(f"{name}{key}" if f"{name}{key}" in texts else key)
    assert found == texts.keys()
