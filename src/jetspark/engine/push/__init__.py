"""The engine of push subscriptions: statuses, gaps, flow control, heartbeats.

- `engine`: how to handle received messages and statuses;
- `gaps`: whether deliveries are missing, by their consumer sequence;
- `flow_control`: which requests of the server to answer, and when;
- `heartbeat`: whether heartbeats are missing.
"""

from jetspark.engine.push.engine import Action, Deliver, FlowControlRequest, PushEngine, ReportError
from jetspark.engine.push.flow_control import FlowControl
from jetspark.engine.push.gaps import GapDetector
from jetspark.engine.push.heartbeat import ALARM_FACTOR, HeartbeatMonitor

__all__ = [
    "ALARM_FACTOR",
    "Action",
    "Deliver",
    "FlowControl",
    "FlowControlRequest",
    "GapDetector",
    "HeartbeatMonitor",
    "PushEngine",
    "ReportError",
]
