"""Recordings of kinds of work that the replay was not built with, and a judge with a reader and measures of its own.

It shares no code with ``wastedcores.trace.readers``, ``runqueues``, ``invariant`` and ``recordings``. Of the package it
uses programs, machines and ``replay()``.

- ``reading``: a recording or a replay as a list of events;
- ``measuring``: what happened, in numbers;
- ``work``: the recorded work as a workload;
- ``judging``: recordings beside replays of them, and the shares of agreement.
"""
