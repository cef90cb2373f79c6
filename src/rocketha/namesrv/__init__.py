"""The name server's rules: which broker is where, and which topics it has.  Pure: no sockets, no clock, no files."""
