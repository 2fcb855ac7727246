"""Properties of work conservation, each checked in every state of small machines.

A state is a machine with up to four CPUs and up to six threads. Each thread is on some CPU and may run on some set of CPUs. The
functions of the engine, as plain Python (:mod:`wastedcores.simulator.plain`), act on the state; no part of a scheduler is
written a second time here.

``choices.py`` runs a function with every outcome of the choices that it makes; an affinity is chosen only when the code
asks for it. ``still.py`` builds the states, and answers some questions instead of the engine. ``core.py`` has the properties of
section 5's core, ``balancer.py`` and ``several.py`` have those of the passes of Linux 6.12, and ``placement.py`` has those of its
wakeups. ``checking.py`` runs all checks. docs/proofs.md explains the results.
"""
