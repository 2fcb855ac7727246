"""Work conservation as properties, checked on every state of small machines.

A state is a machine with up to four CPUs and up to six threads, each of which is on some CPU and may run on some set of CPUs. The
functions that act on it are those of the engine, as plain Python (:mod:`wastedcores.simulator.plain`); nothing of a scheduler is
written again here.

``choices.py`` runs a function with every outcome of the choices that it makes, and decides affinities only when they are asked
for. ``still.py`` builds the states, and answers some questions instead of the engine. ``core.py`` has the properties of section
5's core, ``balancer.py`` and ``several.py`` those of the passes of Linux 6.12, and ``placement.py`` those of its wakeups.
``checking.py`` runs all of them. docs/proofs.md explains the results.
"""
