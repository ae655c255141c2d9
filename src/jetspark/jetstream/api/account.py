"""The request about the account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jetspark.jetstream.account import AccountInfo
from jetspark.jetstream.api.base import Request, read_reply, to_base_struct

__all__ = ["AccountInfoRequest"]


class _AccountInfoReply(AccountInfo):
    type: str = ""


@dataclass(frozen=True, slots=True)
class AccountInfoRequest(Request[AccountInfo]):
    """Get the JetStream resources that the account uses, and its limits."""

    idempotent: ClassVar[bool] = True

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return "INFO"

    def read(self, payload: bytes) -> AccountInfo:
        """Read the reply. JetStreamNotEnabledForAccountError (10039) if the account has no JetStream."""
        return to_base_struct(read_reply(_AccountInfoReply, payload, self.endpoint), AccountInfo)
