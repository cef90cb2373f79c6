"""Attacks on real processes on loopback, from outside: ``python -m tests.attacks [NAME ...]``, or ``make attacks``.

Each is a function marked with :func:`tests.attacks.attack.attack`. It starts what it attacks, is bounded in count and
time, ends by process id what it started, and gives a :class:`tests.attacks.attack.Verdict`. Nothing here uses
rocketha's own code: an attacker is not protected by a client library, and a fault that both ends share would hide
itself.
"""
