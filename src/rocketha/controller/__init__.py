"""The controller's rules: broker ids, masters and SyncStateSets as a replicated state machine.  Pure."""
