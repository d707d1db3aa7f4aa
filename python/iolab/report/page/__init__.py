"""One self-contained HTML page: a template, a style sheet, a little JavaScript, and what fills them."""
