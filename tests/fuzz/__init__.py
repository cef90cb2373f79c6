"""The fuzzer as a test ring, and the fuzzer's own tests."""
