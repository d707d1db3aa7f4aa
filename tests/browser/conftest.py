"""One Chromium for all tests; skipped where there is none."""

from collections.abc import Iterator

import pytest
from tests.browser.chromium import Page, browser, executable


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A running browser with an empty profile."""
    if executable() is None:
        pytest.skip("no chromium; Debian's package is chromium")
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page
