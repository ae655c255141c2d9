"""Hints how to fix an error of the JetStream API, by its number. Each is one short clause in the imperative."""

from __future__ import annotations

from typing import Final

CONSUMER_GONE: Final = (
    "no such consumer: it was removed after inactive_threshold without a pull (5 s by default without durable_name), "
    "or deleted"
)
"""Why a consumer that has existed does not answer."""

HINTS: Final[dict[int, str]] = {
    10014: "create it, or check its name; without durable_name, inactive_threshold (5 s by default) removes it",
    10023: "free storage, or raise the limits of the server or the account",
    10026: "delete a consumer, or raise max_consumers of the stream or the account",
    10039: "enable JetStream for the account, or use another account",
    10047: "free storage, or raise the limits of the server or the account",
    10054: "raise max_msg_size of the stream, or make the message smaller (headers count)",
    10058: "update the stream instead, or choose another name",
    10059: "create the stream first, or check its name and the domain",
    10065: "choose other subjects, or delete the other stream",
    10076: "start the server with JetStream, or check the domain",
    10077: "the stream is full or its storage failed; see its limits and discard policy",
    10098: "a work-queue stream needs ack policy explicit",
    10099: "a work-queue stream allows one consumer, or several with filters that do not overlap",
    10100: "a work-queue stream allows one consumer, or several with filters that do not overlap",
    10109: "a sealed stream accepts no messages and no deletions, and cannot be unsealed",
    10148: "update the consumer instead, or choose another name",
    10158: "send the message again in a moment; it is then stored, or acknowledged as a duplicate",
    10166: "set allow_msg_ttl on the stream",
    10174: "set allow_atomic on the stream",
    10188: "set allow_msg_schedules on the stream",
    10201: "leave out the repeated message, or give it another id",
}
