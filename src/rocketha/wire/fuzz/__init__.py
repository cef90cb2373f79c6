"""A fuzzer for every registered format, made from the format's own specification.

Pure: chance is a ``random.Random`` seeded with the case's name, so a case is the same on every machine, in every
run and under any ``PYTHONHASHSEED``. Theory of operation: :mod:`walk` goes through a construct spec, once to invent
a value, once over bytes to say where each field stands; :mod:`damage` uses that to cut, mutate and lie;
:mod:`fittings` and :mod:`requests` know what makes a value of a particular format *realistic*, so that it gets past
the first check and deep into its reader;
:mod:`generator` names cases; :mod:`contract` says what every reader owes to any bytes.

What it must not know: sockets, files, clocks. ``rocketha.admin.fuzz`` brings those.
"""
