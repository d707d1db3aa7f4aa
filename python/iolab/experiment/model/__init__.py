"""The experiment language as pydantic models: the valid values of each key. No module in this package reads a file."""
