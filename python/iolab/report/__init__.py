"""Format the analysis of a run for the terminal, HTML, Markdown, CSV and JSON.

The functions calculate nothing and print nothing; they return text.

Commands call the functions in `formats`, which imports numpy and scipy; `locale` imports neither.
"""
