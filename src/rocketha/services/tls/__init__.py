"""TLS of a process: its certificates, and the ports and connections that use them."""
