"""Finding the highest load a device forwards: strategies that decide on the next trial, and never measure."""
