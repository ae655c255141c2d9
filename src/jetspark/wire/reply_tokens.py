"""Tokens of reply subjects that cannot be guessed: who sees one reply subject cannot answer another request."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["TOKEN_LENGTH", "TOKEN_PATTERN", "new_tokens"]

TOKEN_LENGTH: Final = 16
"""Characters of a token, each with six random bits."""
TOKEN_PATTERN: Final = rb"[A-Za-z0-9_-]{%d}" % TOKEN_LENGTH
"""Regular expression of a token."""

_RANDOM_BYTES: Final = TOKEN_LENGTH * 3 // 4
_TOKENS_AT_ONCE: Final = 64  # one call of the system for each token would cost more than the rest


def new_tokens() -> Callable[[], bytes]:
    """Return a function that returns a new random token at each call. It is for one thread at a time."""
    return _tokens().__next__


def _tokens() -> Iterator[bytes]:
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(_RANDOM_BYTES * _TOKENS_AT_ONCE))
        for at in range(0, len(text), TOKEN_LENGTH):
            yield text[at : at + TOKEN_LENGTH]
