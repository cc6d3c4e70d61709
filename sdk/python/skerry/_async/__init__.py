"""The client, written once for asyncio; unasync.py makes the other one of it."""
