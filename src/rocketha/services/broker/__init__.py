"""The broker: its ports, requests, effects and upkeep; its nameservers, its controllers and the rest of its group."""
