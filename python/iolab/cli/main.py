"""The entry point of the command line: commands, exit codes, and the only place that catches every exception."""

import gc
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any

from typer.exceptions import Abort, TyperException

from iolab.cli.commands import app
from iolab.cli.console import complain, in_words, list_problems, speak
from iolab.cli.language import requested
from iolab.errors import ExitCode, InputError, IolabError
from iolab.locale import Phrase, Text

SIGINT_STATUS = 130
"""Exit status of typer after Ctrl-C."""
ALLOCATIONS = 100_000
"""Allocations between two garbage collections: most objects of a command live until its end, and a large report has
millions of them."""
READER_GONE = -1
"""Internal status of a command whose output no program reads any more."""


def main() -> None:
    """Run the command line and exit with its status."""
    collect_seldom()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # so terminals without UTF-8 also show all text
    status = run(sys.argv[1:])
    gc.freeze()  # Python collects garbage again at its exit, which takes a fifth of the time of a short command
    sys.exit(status)


def collect_seldom() -> None:
    """Reduce the frequency of garbage collection in this process."""
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])


def run(arguments: list[str]) -> int:
    """Run one command; return its exit status (errors.ExitCode)."""
    with warnings.catch_warnings():
        warnings.showwarning = _shown(warnings.showwarning)
        return _run(arguments)


def _shown(usual: Callable[..., None]) -> Callable[..., None]:
    """Return the function that shows a warning: a warning about an old name once, as one line; other warnings as
    usual."""
    notices: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        aliases = sys.modules.get("iolab.aliases")  # most commands never import this module
        if aliases is None or not issubclass(category, aliases.OldName):
            usual(message, category, *where, **more)
        elif str(message) not in notices:
            notices.add(str(message))
            complain(str(message))

    return show


def _run(arguments: list[str]) -> int:
    speak(requested(arguments))
    try:
        status = int(app(arguments or ["--help"], standalone_mode=False) or ExitCode.DONE)
        sys.stdout.flush()
    except SystemExit:
        status = READER_GONE  # typer's exception for a closed pipe
    except TyperException as error:
        what = error.format_message().rstrip(".")
        complain(Phrase("cli.usage-wrong", what=what))
        return ExitCode.INPUT_WRONG
    except InputError as error:
        list_problems(error.problems)
        return error.exit_code
    except IolabError as error:
        complain(in_words(error))
        return error.exit_code
    except (KeyboardInterrupt, Abort):
        status = SIGINT_STATUS
    except BrokenPipeError:
        status = READER_GONE
    except OSError as error:
        complain(_system_error(error, arguments))
        return ExitCode.HOST_CANNOT
    except Exception as error:
        if "IOLAB_DEBUG" in os.environ:
            traceback.print_exc()
        complain(Phrase("cli.defect-of-iolab", type=type(error).__name__, error=error))
        return ExitCode.HOST_CANNOT
    return _meaning(status)


def _system_error(error: OSError, arguments: list[str]) -> Text:
    """Return the text of a system error, and the place of the error: the file, or the command and the place in the
    code."""
    said = error.strerror or str(error) or type(error).__name__
    if error.filename:
        return Phrase("errors.failed-with-reason", what=said, reason=error.filename)
    from iolab.registry.guard import place_of  # imports the tables of kinds, which no other message needs

    if "IOLAB_DEBUG" in os.environ:
        traceback.print_exception(error)
    command = " ".join(["iolab", *arguments[:1]])
    return Phrase("cli.running-command-failed", command=command, reason=said, place=place_of(error))


def _meaning(status: int) -> int:
    """Return the exit status for the result of a command."""
    if status == SIGINT_STATUS:
        complain(Phrase("errors.interrupted"))
        return ExitCode.INTERRUPTED
    # `| head` has exited; this prevents a second error message from Python at its exit.
    if status == READER_GONE:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    return status
