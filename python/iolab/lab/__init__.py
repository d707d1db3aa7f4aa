"""Everything that must exist for a cell, as pure values: resources with commands, undo and read-back."""
