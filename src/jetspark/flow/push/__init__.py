"""The engine of push subscriptions: statuses, gaps, flow control, heartbeats.

- `engine`: how to handle received messages and statuses;
- `gaps`: whether deliveries are missing, by their consumer sequence;
- `flow_control`: which requests of the server to answer, and when;
- `heartbeat`: whether heartbeats are missing;
- `resetting`: when an ordered subscription creates its next consumer.
"""

from jetspark.flow.push.engine import Action, Alert, Deliver, FlowRequest, PushEngine, Reset
from jetspark.flow.push.flow_control import FlowControl
from jetspark.flow.push.gaps import GapDetector
from jetspark.flow.push.heartbeat import ALARM_FACTOR, HeartbeatMonitor
from jetspark.flow.push.resetting import ResetBackoff, is_passing

__all__ = [
    "ALARM_FACTOR",
    "Action",
    "Alert",
    "Deliver",
    "FlowControl",
    "FlowRequest",
    "GapDetector",
    "HeartbeatMonitor",
    "PushEngine",
    "Reset",
    "ResetBackoff",
    "is_passing",
]
