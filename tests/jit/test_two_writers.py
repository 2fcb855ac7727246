"""Whatever two processes write into the cache at the same time, each signature later gets its own machine code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from wastedcores.jit.cache import config

CODE = """
import itertools, os, threading
import numba, numpy as np
from wastedcores.jit import compile

VALUES = {"a": np.array([258], np.int64), "b": np.array([2.5])}
replace = os.replace

def published(function, order):
    '''Save machine code for both types, as two processes would that publish their files in this order; return what it gives.'''
    order, turn = list(order), threading.Condition()

    def in_turn(source, target):
        me = threading.current_thread().name
        with turn:
            assert turn.wait_for(lambda: me not in order or order[0] == me, timeout=60)
            replace(source, target)
            if me in order:
                order.remove(me)
            turn.notify_all()

    def save(cache, result):
        cache.save_overload(result.signature.args, result)
        with turn:  # the turns that it does not need are the other's
            order[:] = [name for name in order if name != threading.current_thread().name]
            turn.notify_all()

    writers = []
    for name, value in VALUES.items():
        compiled = numba.njit(function)
        compiled(value)
        (result,) = compiled.overloads.values()
        writers.append(threading.Thread(target=save, name=name, args=(compile.jit(function)._cache, result)))
    os.replace = in_turn
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    os.replace = replace
    reader = compile.jit(function)
    return [reader(value) for value in VALUES.values()], sum(reader.stats.cache_hits.values())

for number, order in enumerate(sorted(set(itertools.permutations("aabb")))):
    function = eval(f"lambda values: values[0] + {number}")
    function.__code__ = function.__code__.replace(co_filename=__file__)
    function.__name__ = function.__qualname__ = f"number_{number}"
    given, hits = published(function, order)
    assert given == [258 + number, 2.5 + number], (order, given)
    assert hits == 2, (order, hits)
"""


@pytest.mark.slow
@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_each_signature_gets_its_own_machine_code_in_whatever_order_two_writers_publish(tmp_path):
    script = tmp_path / "two_writers.py"
    script.write_text(CODE)
    cache = {"WASTEDCORES_CACHE_DIR": str(tmp_path / "cache"), "WASTEDCORES_JIT_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | cache,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
