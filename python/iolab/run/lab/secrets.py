"""Read secrets from the places that an experiment names: files and environment variables of the controller.

A secret is passed to a single command, on its standard input. A secret is never an argument, and never stored.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from iolab.errors import InputError, Problem
from iolab.experiment.model.targets import SecretSource
from iolab.locale import Phrase, Text

MOST_BYTES = 255
"""Maximum length of a CHAP secret in open-iscsi [bytes]."""
LEAST_BYTES = 12
"""Minimum length of a CHAP secret outside IPsec: 96 bits (RFC 7143, 9.2.1) [bytes]."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_secret(source: SecretSource, environment: Mapping[str, str] = os.environ) -> str:
    """Return a secret.

    Raises:
        InputError: the secret is missing or is no CHAP secret, or users other than the owner may read its file.
    """
    if source.env is not None:
        if source.env not in environment:
            advice = Phrase("run.set-secret-variable", name=source.env)
            raise _refused(source, Phrase("run.secret-variable-unset"), Phrase("run.a-secret"), advice)
        return _checked(source, environment[source.env])
    return _checked(source, _of_file(source, Path(source.file or "").expanduser()))


def _of_file(source: SecretSource, path: Path) -> str:
    advice = Phrase("run.make-secret-file", path=path)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise _refused(source, Phrase("run.secret-no-file"), Phrase("run.secret-in-file"), advice)
            if state.st_mode & OTHERS:
                seen = Phrase("run.mode-of-secret", mode=f"{stat.S_IMODE(state.st_mode):04o}")
                remedy = Phrase("run.restrict-secret-file", path=path)
                raise _refused(source, seen, Phrase("run.mode-for-secret"), remedy)
            return file.read(MOST_BYTES + 2).decode("ascii", "replace")
    except OSError as error:
        raise _refused(source, error.strerror or str(error), Phrase("run.secret-in-file"), advice) from None


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _checked(source: SecretSource, text: str) -> str:
    """Return a secret without its line end, if it is valid. The error does not show the secret."""
    secret = text.removesuffix("\n").removesuffix("\r")
    plain = all("!" <= one <= "~" for one in secret)
    if not plain or not LEAST_BYTES <= len(secret) <= MOST_BYTES:
        seen = Phrase("run.secret-of-length", count=len(secret))
        allowed = Phrase("run.secret-allowed", least=LEAST_BYTES, most=MOST_BYTES)
        raise _refused(source, seen, allowed)
    return secret


def _refused(source: SecretSource, seen: Text, allowed: Text, advice: Text = "") -> InputError:
    return InputError([Problem(source.place, Phrase("run.reading-secret"), seen, allowed, advice)])
