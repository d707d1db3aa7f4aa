"""The language as pydantic models: what each key of a section may be. Nothing here reads a file."""
