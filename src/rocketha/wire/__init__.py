"""Wire and disk formats: construct specifications, the codecs derived from them, and bounded framing.

Pure.  Nothing in here knows a socket, a file, a clock or Twisted.
"""
