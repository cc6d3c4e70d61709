# Made of ../_async by unasync.py: do not edit.
"""The client, without asyncio."""
