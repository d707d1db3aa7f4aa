"""What iolab states about a lab or a trial, as codes with typed parameters; `report.words` makes the sentences.

All of its modules are read with the first, so that a stored statement finds the class of its code.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
