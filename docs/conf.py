"""Settings of Sphinx for the documentation."""

from blocks_checkpoint.version import __version__

project = "blocks_checkpoint"
author = "the blocks_checkpoint authors"
copyright = f"2026, {author}"
release = version = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.doctest"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
nitpicky = False
