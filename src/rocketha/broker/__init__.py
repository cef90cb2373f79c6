"""The broker's rules: topics, groups, offsets, clients and the requests about them.  Pure."""
