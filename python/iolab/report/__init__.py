"""Estimates -> terminal, HTML, Markdown, CSV, JSON. Formatting only, no arithmetic; text out, nothing printed.

`formats` has what the commands call. It loads numpy and scipy; the words of a language do not.
"""
