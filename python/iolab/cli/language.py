"""The language of a command: the option `--lang`, and the help of commands, options and arguments.

The file `help.toml` of a language has the help texts. Their keys are the name of a command, `--NAME` of an option (or
`COMMAND--NAME` if its text differs from that of other commands), and the name of an argument in capitals. The file
contains nothing else, because every `--help` and every completion reads it.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from iolab.cli.console import in_words, spoken
from iolab.locale import ENGLISH, Phrase, languages
from iolab.locale.phrases import fill, templates

if TYPE_CHECKING:  # private to typer
    from typer._click.core import Command

FILE, OPTION = "help", "--lang"


def requested(arguments: Sequence[str]) -> str:
    """Return the language that `--lang` selects, even after `--help`, which ends the parsing of options.

    For an unknown language the result is English; the option itself rejects the language later.
    """
    words = [
        part
        for word in arguments
        for part in (word.split("=", 1) if word.startswith(f"{OPTION}=") else [word])
    ]
    found = [language for option, language in pairwise(words) if option == OPTION]
    return found[-1] if found and found[-1] in languages() else ENGLISH


def _known(language: str) -> str:
    """Return the language unchanged if it exists. Raises typer.BadParameter: the language has no folder."""
    if language not in languages():
        raise typer.BadParameter(
            in_words(Phrase("cli.no-such-language", language=repr(language), languages=languages()))
        )
    return language


Language = Annotated[str, typer.Option(OPTION, metavar="CODE", callback=_known)]
"""Option `--lang`; the environment does not select the language, so that a command prints the same text on every
host."""


def help_texts() -> Mapping[str, str]:
    """Return the help texts in the output language, by key."""
    return {**templates(ENGLISH, FILE), **templates(spoken(), FILE)}


def explain(command: "Command", name: str, texts: Mapping[str, str]) -> None:
    """Set the help of a command, of its parameters and of the commands in it."""
    command.help = texts[name]
    explain_parameters(command, name, texts)
    if isinstance(command, TyperGroup):
        for inner, one in command.commands.items():
            explain(one, f"{name}-{inner}", texts)


def explain_parameters(command: "Command", name: str, texts: Mapping[str, str]) -> None:
    """Set the help of a command's options and arguments; typer's own options keep their help."""
    for one in command.params:
        if isinstance(one, TyperArgument | TyperOption):
            key = parameter_name(one)
            text = texts.get(f"{name}{key}", texts.get(key))
            one.help = one.help if text is None else fill(text, _place)


def parameter_name(parameter: TyperArgument | TyperOption) -> str:
    """Return the key of an option or an argument in `help.toml`."""
    name = max(parameter.opts, key=len)
    return name if isinstance(parameter, TyperOption) else name.upper().replace("_", "-")


def _place(name: str, _spec: str) -> str:
    return ", ".join({"languages": languages}[name]())
