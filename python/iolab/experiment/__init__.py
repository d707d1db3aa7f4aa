"""Read an experiment file into a frozen `Experiment` with resolved units; report all errors at once.

The package accesses no host.

Later stages use `load` or `parse`, iterate over `cells`, and use a `Resolver` to get the lab and measures of each cell.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iolab.experiment.check import load as load
    from iolab.experiment.check import parse as parse
    from iolab.experiment.factors.product import cells as cells
    from iolab.experiment.factors.resolve import Resolver as Resolver
    from iolab.experiment.factors.resolve import resolver_of as resolver_of
    from iolab.experiment.one_line import starter as starter
    from iolab.experiment.schema import json_schema as json_schema

_HOME = {
    "Resolver": "factors.resolve",
    "cells": "factors.product",
    "json_schema": "schema",
    "load": "check",
    "parse": "check",
    "resolver_of": "factors.resolve",
    "starter": "one_line",
}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use: the YAML reader and pydantic are slow to import."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
