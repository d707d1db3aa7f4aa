"""Load searches: strategies that choose the next trial in the search for the highest load that a device forwards."""
