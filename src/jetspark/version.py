"""The version, in a module of its own, so that the lowest layer can name it without reaching for the whole package."""

__version__ = "0.1.0"
