"""Every public name can be used repeatedly, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import wastedcores

#: public name -> an expression that calls it; a name that is not here is used as a class or a text
CALLS = {
    "Trace": "wc.Trace(wc.open_trace(path).events, wc.Header(source_format='x'))",
    "Header": "wc.Header(source_format='x')",
    "open_trace": "wc.open_trace(path)",
    "open": "wc.open('live-balancing-on')",
    "import_trace": "refused(wc.import_trace, 'absent.txt', 'absent.parquet')",
    "check": "wc.check(wc.open_trace(path))",
    "score": "wc.score([wc.check(path)])",
    "Machine": "wc.Machine.preset('bd-paper-16')",
    "build_domains": "wc.build_domains(wc.Machine.preset('bd-paper-16'), wc.KernelModel.named('v4.1'))",
    "KernelModel": "wc.KernelModel.named('v4.1')",
    "report": "refused(wc.report, 'absent')",
    "fetch": "wc.fetch('live-balancing-on')",
    "replay": "wc.replay(busy(), 'bd-paper-16', 'v4.1')",
    "replay_scenario": "wc.replay_scenario('recorded-gc', machine='bd-paper-16', given={'limit_s': 0.01})",
    "compare": "wc.compare({'one': wc.open_trace(path)})",
    "explain": "wc.explain(wc.open_trace(path))",
    "critical_path": "refused(wc.critical_path, wc.open_trace(path), 'no such mark')",
    "examine": "wc.examine(wc.open_trace(path)).result",
    "recorded_on": "wc.recorded_on(path, 'live')",
    "recover": "wc.recover(wc.open_trace(path)).sleeps",
    "whatif": "refused(lambda: wc.whatif(wc.open_trace(path), seeds=0))",
    "advise": "refused(lambda: wc.advise(wc.open_trace(path), between=('no such mark', '1')))",
    "__version__": "wc.__version__.split('.')",
}

PROGRAM = """
import importlib, pkgutil, random
import wastedcores as wc
from wastedcores.errors import WastedCoresError

def refused(function, *args):
    try:
        function(*args)
    except WastedCoresError:
        return True
    raise AssertionError(function)

def busy():
    from wastedcores.workload import Script, Workload
    w = Workload("busy")
    w.task("t", Script().compute(1000))
    return w

names = [m.name for m in pkgutil.walk_packages(wc.__path__, "wastedcores.") if not m.name.endswith("__main__")]
random.Random({seed}).shuffle(names)
cut = {cut}
for name in names[:cut]:
    importlib.import_module(name)
path = wc.fetch("live-balancing-on")
for turn in range(2):
    for call in {calls}:
        assert eval(call), call
        for name in names[cut:]:
            importlib.import_module(name)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "cut"), [(3, 40), (1, 0), (2, None), (4, None)])
def test_every_name_can_be_used_twice_after_imports_in_any_order(seed, cut):
    assert set(CALLS) == set(wastedcores.__all__)
    program = PROGRAM.format(seed=seed, cut=cut, calls=list(CALLS.values()))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
