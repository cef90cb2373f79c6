"""What a server's process has, whatever it serves: clocks, timers, signals, memory, the status port."""
