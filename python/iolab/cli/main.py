"""The command line's front door: commands, exit codes, and the only place that catches every exception."""

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
from iolab.errors import ExitCode, InputError, IolabError
from iolab.locale import ENGLISH, Phrase, Text

SIGINT_STATUS = 130
"""What typer returns for Ctrl-C."""
ALLOCATIONS = 100_000
"""From one look for garbage to the next: what a command makes lives until it ends, and a large report is millions of
objects."""
READER_GONE = -1
"""Our word for output that nobody reads any more."""


def main() -> None:
    """Run the command line and exit with its code."""
    collect_seldom()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 still gets every figure
    status = run(sys.argv[1:])
    gc.freeze()  # Python looks for garbage once more as it ends: a fifth of the time of a short command
    sys.exit(status)


def collect_seldom() -> None:
    """Look for garbage seldom, in this process."""
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])


def run(arguments: list[str]) -> int:
    """Run one command; return its exit code (errors.ExitCode)."""
    with warnings.catch_warnings():
        warnings.showwarning = _shown(warnings.showwarning)
        return _run(arguments)


def _shown(usual: Callable[..., None]) -> Callable[..., None]:
    """Return what shows a warning: of an old name one line, as of a complaint, and once; others as usual."""
    notices: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        aliases = sys.modules.get("iolab.aliases")  # most commands never load it
        if aliases is None or not issubclass(category, aliases.OldName):
            usual(message, category, *where, **more)
        elif str(message) not in notices:
            notices.add(str(message))
            complain(str(message))

    return show


def _run(arguments: list[str]) -> int:
    speak(ENGLISH)  # until an option says otherwise
    try:
        status = int(app(arguments or ["--help"], standalone_mode=False) or ExitCode.DONE)
        sys.stdout.flush()
    except SystemExit:
        status = READER_GONE  # typer's way to tell of a closed pipe
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
    """Return what the system refused and where: the file, or else the command and the place in the code."""
    said = error.strerror or str(error) or type(error).__name__
    if error.filename:
        return Phrase("errors.failed-with-reason", what=said, reason=error.filename)
    from iolab.registry.guard import place_of  # loads the tables of kinds, which no other message needs

    if "IOLAB_DEBUG" in os.environ:
        traceback.print_exception(error)
    command = " ".join(["iolab", *arguments[:1]])
    return Phrase("cli.running-command-failed", command=command, reason=said, place=place_of(error))


def _meaning(status: int) -> int:
    """Return our exit code for what a command ended with."""
    if status == SIGINT_STATUS:
        complain(Phrase("errors.interrupted"))
        return ExitCode.INTERRUPTED
    if status == READER_GONE:  # `| head` has seen enough; keep Python from complaining again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    return status
