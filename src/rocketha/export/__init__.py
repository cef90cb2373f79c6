"""What leaves a store for other programs to read: an export, a directory of copied segments with a manifest.

Pure, but for nothing: disks, time and progress are handed in.  The command is ``admin/export.py``.
"""
