"""Raft as a pure state machine: ``step``, ``tick`` and ``propose`` go in, a ``Ready`` comes out.

No clock, no socket, no disk, no chance of its own.  docs/raft.rst says how it works and where it differs from the
paper and from DLedger; ``services/raft/service.py`` carries out what it asks for.
"""
