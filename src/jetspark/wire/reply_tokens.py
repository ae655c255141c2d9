"""Tokens of reply subjects that cannot be guessed: a client that sees one cannot answer another request."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["TOKEN_LENGTH", "TOKEN_PATTERN", "NumberedTokens", "new_tokens"]

TOKEN_LENGTH: Final = 16
"""Characters of a token, each with six random bits."""
TOKEN_PATTERN: Final = rb"[A-Za-z0-9_-]{%d}" % TOKEN_LENGTH
"""Regular expression of a token."""

_RANDOM_BYTES: Final = TOKEN_LENGTH * 3 // 4
_PROOF_LENGTH: Final = 17  # with the hyphen
_MAX_DIGITS: Final = 20
_TOKENS_AT_ONCE: Final = 64  # one call of the system for each token would cost more than the rest


def new_tokens() -> Callable[[], bytes]:
    """Return a function that returns a new random token at each call. It is for one thread at a time."""
    return _tokens().__next__


def _tokens() -> Iterator[bytes]:
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(_RANDOM_BYTES * _TOKENS_AT_ONCE))
        for at in range(0, len(text), TOKEN_LENGTH):
            yield text[at : at + TOKEN_LENGTH]


class NumberedTokens:
    """Tokens that carry a number, with a keyed hash of it as the proof. They need no memory."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)

    def token(self, number: int) -> bytes:
        """Return the token of a number."""
        text = b"%d" % number
        proof = hashlib.blake2b(text, key=self._key, digest_size=12).digest()
        return text + b"-" + base64.urlsafe_b64encode(proof)

    def number(self, token: bytes) -> int | None:
        """Return the number of a token; None for one that was not made here."""
        text = token[:-_PROOF_LENGTH]
        if not (text.isdigit() and len(text) < _MAX_DIGITS):
            return None
        number = int(text)
        return number if secrets.compare_digest(self.token(number), token) else None
