"""The version, apart from the package itself: whoever asks for it should not import the in-process API."""

__version__ = "0.1.0"
