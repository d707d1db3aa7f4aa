"""Set up all tests: no deadline on single generated cases, because these machines are shared; remote hosts."""

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
"""Allocations between two garbage collections."""
RERUN_LINES = 60
"""Lines of output that are shown of a rerun test."""


def pytest_collection_finish() -> None:
    """Collect garbage rarely, and never among loaded modules: it took a tenth of the time of all unit tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the reason of each rerun."""
    for failed in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"tried again: {failed.nodeid}")
        terminalreporter.line("\n".join(failed.longreprtext.splitlines()[-RERUN_LINES:]))


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """Provide a private network on which hosts can be created; ssh starts in it."""
    if SSHD is None:
        pytest.skip("needs sshd; scripts/packages.sh ssh installs it")
    made = Network(tmp_path / "net")
    monkeypatch.setenv("IOLAB_SSH", made.ssh)
    yield made
    made.close()
