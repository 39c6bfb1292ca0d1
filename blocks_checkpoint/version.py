"""The version of the package; setuptools reads it from here."""

__version__ = "0.1.0"
