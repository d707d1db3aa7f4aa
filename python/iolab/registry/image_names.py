"""Names of guest images: a flavour of the recipe, and Debian packages beyond it: linux:apache2-utils,nginx-light."""

import re
from collections.abc import Iterable

PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
"""Of Debian packages (Debian Policy 5.6.1); no option of apt."""


def image_name(flavour: str, packages: Iterable[str]) -> str:
    """Return the name of a flavour with more packages, in whatever order they are given."""
    more = ",".join(sorted({*packages_of_image(flavour), *packages}))
    return f"{flavour_of_image(flavour)}:{more}" if more else flavour


def flavour_of_image(name: str) -> str:
    """Return the flavour of an image's name."""
    return name.partition(":")[0]


def packages_of_image(name: str) -> tuple[str, ...]:
    """Return the packages of an image's name that its flavour has not."""
    return tuple(filter(None, name.partition(":")[2].split(",")))
