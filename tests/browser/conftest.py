"""Provide one Chromium for all tests; skip tests without it."""

from collections.abc import Iterator

import pytest
from tests.browser.chromium import Page, browser, executable


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Provide a running browser with an empty profile."""
    if executable() is None:
        pytest.skip("no chromium; Debian's package is chromium")
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page
