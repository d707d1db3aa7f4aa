"""Estimates -> terminal, HTML, Markdown, CSV. Formatting only, no arithmetic."""
