"""Drivers: asyncio code that feeds an engine of `jetspark.engine` with messages and performs its actions."""
