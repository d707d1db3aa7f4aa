"""The report as one self-contained HTML page: template, style sheet, JavaScript, and their content."""
