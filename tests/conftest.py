"""What all tests share: no deadline on single generated cases, for these machines are shared and pause; other hosts."""

from collections.abc import Iterator
from pathlib import Path

import MLRsearch  # noqa: F401 - it looks through every module that is loaded before it: seconds at the end, none here
import pytest
from hypothesis import settings
from tests.netns.sshd import SSHD, Network

settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """A network of our own, on which hosts can be made; ssh starts in it."""
    if SSHD is None:
        pytest.skip("needs sshd; scripts/packages.sh ssh installs it")
    made = Network(tmp_path / "net")
    monkeypatch.setenv("IOLAB_SSH", made.ssh)
    yield made
    made.close()
