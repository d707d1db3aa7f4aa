"""What all tests share: no deadline on single generated cases, for these machines are shared and pause; other hosts."""

import gc
from collections.abc import Iterator
from pathlib import Path

import MLRsearch  # noqa: F401 - it looks through every module that is loaded before it: seconds at the end, none here
import pytest
from hypothesis import settings
from tests.netns.sshd import SSHD, Network

from iolab.locale import Phrase
from iolab.own_kinds import provide_own_kinds

settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
provide_own_kinds()


def _refuse_format(phrase: Phrase, _spec: str) -> str:
    raise TypeError(
        f"{phrase.code} within other text would lose its language: give it to a phrase as a value"
    )


Phrase.__format__ = _refuse_format  # type: ignore[assignment, method-assign]  # in the product it is English text
ALLOCATIONS = 100_000
"""From one look for garbage to the next."""
RERUN_LINES = 60
"""Of what a test said that was tried again."""


def pytest_collection_finish() -> None:
    """Look for garbage seldom, and never among what was loaded: a tenth of the time of all unit tests went there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why a test had to be tried again."""
    for failed in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"tried again: {failed.nodeid}")
        terminalreporter.line("\n".join(failed.longreprtext.splitlines()[-RERUN_LINES:]))


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """A network of our own, on which hosts can be made; ssh starts in it."""
    if SSHD is None:
        pytest.skip("needs sshd; scripts/packages.sh ssh installs it")
    made = Network(tmp_path / "net")
    monkeypatch.setenv("IOLAB_SSH", made.ssh)
    yield made
    made.close()
