"""Small tables that live in files, and requests that wait until a change of them is safe."""
