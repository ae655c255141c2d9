"""Credentials in CONNECT: user and password, token, a signed nonce (nkey), or a JWT with a signed nonce."""

from __future__ import annotations

import base64
import contextlib
from typing import Final

from jetspark.wire.errors import AuthenticationError, ConfigError
from jetspark.wire.files import MAX_FILE_SIZE
from jetspark.wire.options import ConnectOptions, ServerAddress, resolve_secret

__all__ = ["credential_fields", "has_unused_signer"]

_MAX_SEED_LENGTH: Final = 256
"""Characters; a seed has 58."""


def credential_fields(options: ConnectOptions, address: ServerAddress, nonce: str | None) -> dict[str, str]:
    """Return the credential fields of CONNECT.

    A password or token and a signature are sent together: an auth callout may need both. A password or token of the
    address replaces that of the options, and their nkey. Without a nonce there is nothing to sign. So JWT or public key
    are sent without a signature, which a server could only use to log in elsewhere.

    Raises
    ------
    ConfigError
        The credentials cannot be read, or the `nkeys` extra is missing.
    AuthenticationError
        The server sent no nonce to sign, and there are no other credentials.
    CredentialsCallbackError
        A function that the program gave for a credential raised.
    """
    fields = _login(options, address)
    text = options.credentials_text()
    if text is not None:
        sections = _sections(text)
        jwt, seed = sections.get("NATS USER JWT"), sections.get("USER NKEY SEED")
        if jwt is None or seed is None:
            where = options.credentials_file or "the given text"
            raise ConfigError(
                f"the credentials in {where} lack a user JWT or its nkey seed; give a complete .creds file"
            )
        return {**fields, "jwt": jwt, **_signature(_sign(seed, nonce, alone=not fields)[1])}
    if options.nkey_seed is not None and address.user is None and address.token is None:
        seed = resolve_secret(options.nkey_seed) or ""
        public, signature = _sign(seed.strip(), nonce, alone=not fields)
        return {**fields, "nkey": public, **_signature(signature)}
    return fields


def has_unused_signer(options: ConnectOptions, nonce: str | None) -> bool:
    """Return whether the options have credentials or an nkey that a server without a nonce does not check."""
    signers = (options.credentials_file, options.credentials, options.nkey_seed)
    return nonce is None and any(each is not None for each in signers)


def _signature(signature: str) -> dict[str, str]:
    return {"sig": signature} if signature else {}


def _sections(text: str) -> dict[str, str]:
    """Return the word that follows each line `-----BEGIN NAME-----`, by its name."""
    found: dict[str, str] = {}
    for part in text[:MAX_FILE_SIZE].split("BEGIN ")[1:]:
        name, dash, rest = part.partition("-")
        words = rest.split(None, 2)[:2] if dash else []
        if len(words) == 2 and not words[0].strip("-"):
            found.setdefault(name, words[1])
    return found


def _login(options: ConnectOptions, address: ServerAddress) -> dict[str, str]:
    """Return user and password, or the token."""
    if address.token is not None:
        return {"auth_token": address.token}
    if address.user is not None:
        return {"user": address.user, "pass": address.password or ""}
    if options.token is not None:
        return {"auth_token": resolve_secret(options.token) or ""}
    if options.user is not None:
        return {"user": options.user, "pass": resolve_secret(options.password) or ""}
    return {}


def _sign(seed: str, nonce: str | None, *, alone: bool) -> tuple[str, str]:
    """Return the public key and the signature of the nonce, empty without one.

    `alone` says that there are no other credentials.
    """
    try:
        import nkeys
    except ImportError:
        raise ConfigError("nkeys and .creds files need the package nkeys: pip install 'jetspark[nkeys]'") from None
    if nonce is None and alone:
        raise AuthenticationError("the server sent no nonce, so it accepts neither nkeys nor JWTs; use another login")
    pair = None
    # Suppressed, and not replaced: the context of the next error must not hold the seed.
    # ValueError: nkeys' own libraries raise it for a wrong length.
    with contextlib.suppress(nkeys.NkeysError, ValueError):
        pair = nkeys.from_seed(bytearray(seed[:_MAX_SEED_LENGTH].encode()))
    if pair is None:
        raise ConfigError("the nkey seed is not valid; the seed of a user begins with SU")
    try:
        public = pair.public_key.decode()
        if nonce is None:
            return public, ""
        return public, base64.urlsafe_b64encode(pair.sign(nonce.encode())).rstrip(b"=").decode()
    finally:
        pair.wipe()
