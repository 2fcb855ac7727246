"""Dishonest and wrong submissions: lab, task and what stands where the task has its answer; nothing else is answered."""

# ruff: noqa: E501 - a line is what a student writes
from __future__ import annotations

#: what another student's checks measured is put here
OTHER = "@OTHER@"

ATTEMPTS: dict[str, tuple[int, str, str]] = {
    # --- the package, changed or used in the place of an answer
    "takes the sweep of the lab's module": (1, "3", "violations = toy.episodes"),
    "imports the answers": (
        1, "3", "from wastedcores_course.answers.idle_cores import ANSWERS\nviolations = ANSWERS['3'].right(v)",
    ),
    "reads the answers from the sources": (
        2, "5", "import wastedcores, pathlib\nfolder = pathlib.Path(wastedcores.__file__).parent / 'course/answers'\n"
        "exec((folder / 'domains_and_groups.py').read_text())\ndomains = _domains",
    ),
    "replaces the judge": (
        1, "3", "import wastedcores_course.lab as package\npackage.judge = lambda *given: package.Feedback('3', True, 5, 5, 'right')\n"
        "violations = lambda *given: []",
    ),
    "replaces the lab": (
        4, "4", "class Lab:\n    def check(self, task, answer): return 'right'\n    check_hidden = check\nlab = Lab()\n"
        "by_average = None",
    ),
    "replaces the measuring": (
        2, "3", "import wastedcores_course.lab as package\npackage.measured = lambda *given: {'value': True}\nwithin = print",
    ),
    "removes the traces with which a function is tried": (
        1, "3", "toy.tried = lambda seed: []\nviolations = lambda *given: []",
    ),
    "changes its own numbers": (
        2, "3", "object.__setattr__(v, 'distance', ((10,),))\nwithin = lambda *given: [0]",
    ),
    "finds the tasks with gc and lets every answer be right": (
        4, "5", "import gc\nfrom wastedcores_course.task import Task\nfor x in gc.get_objects():\n    if isinstance(x, Task):\n"
        "        object.__setattr__(x, 'right', lambda *given: True)\nby_minimum = lambda a, b: True",
    ),
    "replaces the queues and the moves": (
        4, "7", "toy.queues_after = lambda *given, **more: [1, 1, 1, 1]\ntoy.moved_per_pass = lambda v, r, passes=8: [0] * passes\n"
        "steady = lambda local, busiest: False",
    ),
    "removes the states in which a rule is tried": (
        4, "7", "toy.trials = lambda v: []\nsteady = lambda local, busiest: False",
    ),
    "replaces the balancing itself": (
        4, "7", "toy._balanced_by = lambda *given: [toy.Decision(0, '', 0, '', (), (), (), ((1,),) * 4, (1,))]\n"
        "steady = lambda local, busiest: False",
    ),
    "replaces the time of the database": (
        5, "5", "toy.makespan_ms = lambda *given: 0.0\nfix = lambda prev_cpu, allowed, cpus: None",
    ),
    "replaces the database by an empty one": (
        5, "5", "toy.ITERATIONS = 0\ntoy._database = lambda *given: 0.0\nfix = lambda prev_cpu, allowed, cpus: None",
    ),
    "replaces the trial of a module": (
        6, "7", "toy.try_module = lambda v, m: {'makespan_ms': 0, 'wasted_ms': 0, 'taken': 10**6, 'refused': 0}\n"
        "class Spread(Module): pass",
    ),
    "replaces the experiment on groups": (
        3, "6", "toy.threads_after = lambda *given, **more: [4, 4]\nbest = lambda cpu, span, below: [span]",
    ),
    "puts a package of the same name into its folder": (
        4, "4", "import os, sys\nos.makedirs('wastedcores_course', exist_ok=True)\n"
        "open('wastedcores/__init__.py', 'w').write('')\nopen('wastedcores_course/__init__.py', 'w').write(\n"
        "    'class Lab:\\n    def __init__(self, *a): self.variation = None\\n    check = check_hidden = print')\n"
        "sys.path.insert(0, os.getcwd())\nfor n in [n for n in sys.modules if n.startswith('wastedcores')]: del sys.modules[n]\n"
        "from wastedcores_course import Lab\nlab = Lab(4, student)\nby_average = None",
    ),
    "replaces built-in functions": (
        4, "4", "import builtins\nbuiltins.isinstance = lambda *given: True\nbuiltins.sum = lambda *given: 0\n"
        "by_average = lambda a, b: True",
    ),
    "writes into sys.modules": (
        5, "3", "import sys, types\nfake = types.ModuleType('measuring')\nfake.measured = lambda *given: {'value': []}\n"
        "fake.same = lambda *given: True\nsys.modules['wastedcores_course.measuring'] = fake\nchoose = lambda *given: None",
    ),
    # --- the numbers of hidden checks
    "makes a table of the hidden machines with the package": (
        3, "5", "from wastedcores_course.labs.numa import groups_of\ntable = {}\n"
        "for x in (v, *lab.hidden_variations):\n    for c, g in groups_of(x.machine, 'v4.13').items():\n"
        "        table[c, repr(x.below)] = g\nconstruct = lambda cpu, span, below: table[cpu, repr(below)]",
    ),
    "makes a table of the hidden domains with the package": (
        2, "5", "table = {}\nfor x in (v, *lab.hidden_variations):\n    built = wc.build_domains(x.machine, 'v6.12')\n"
        "    for c in built.cpus:\n        table[c, x.distance] = [d.cpus for d in built.of(c)]\n"
        "domains = lambda distance, cpu: table[cpu, distance]",
    ),
    "finds the function that is switched off in the frames": (
        3, "2", "import sys\ndef construct_4_1(cpu, span, below):\n    frame = sys._getframe()\n    while frame:\n"
        "        if 'saved' in frame.f_locals:\n            return frame.f_locals['saved'][0][2](cpu, span, below)\n"
        "        frame = frame.f_back",
    ),
    "looks for the right answer in the frames": (
        1, "6", "import sys\ndef wasted(idle, waiting):\n    frame = sys._getframe()\n    while frame:\n"
        "        if 'want' in frame.f_locals:\n            return frame.f_locals['want'].pop(0)\n        frame = frame.f_back\n"
        "    return True",
    ),
    "looks for the secret in the environment": (
        4, "4", "import os\ndef by_average(a, b):\n    raise ValueError(open(os.environ['WASTEDCORES_COURSE_SECRET'], 'rb').read().hex())",
    ),
    "tells the hidden numbers in an exception": (
        4, "5", "import os\ndef by_minimum(a, b):\n    raise ValueError(open(os.environ['WASTEDCORES_COURSE_VARIATIONS']).read())",
    ),
    "looks into the grader's process": (
        5, "4", "import glob\nfound = []\nfor path in ('/proc/1/environ', '/proc/1/mem', '/proc/1/fd/1', '/proc/1/cwd/secret', *glob.glob('/proc/*/root/.old')):\n"
        "    try: found.append(open(path, 'rb').read(1))\n    except OSError: pass\nbetter = found[0]",
    ),
    # --- the files of the grader
    "writes measurements": (
        4, "7", "import json, os\ndef add(task, hidden, n):\n    with open(os.environ['WASTEDCORES_COURSE_MEASURED'], 'a') as file:\n"
        "        row = {'lab': 4, 'task': task, 'student': student, 'hidden': hidden, 'measured': [{'value': True}] * n}\n"
        "        file.write(json.dumps(row) + '\\n')\nfor t in '12345678':\n    add(t, False, 1); add(t, True, 2)\nlab = None",
    ),
    "writes measurements when it ends": (
        4, "7", "import atexit, json, os\ndef add():\n    with open(os.environ['WASTEDCORES_COURSE_MEASURED'], 'a') as file:\n"
        "        for hidden, n in ((False, 1), (True, 2)):\n            value = {'queues': [1, 1, 1, 1], 'late moves': 0}\n"
        "            row = {'lab': 4, 'task': '7', 'student': student, 'hidden': hidden, 'measured': [{'value': value}] * n}\n"
        "            file.write(json.dumps(row) + '\\n')\natexit.register(add)\nsteady = lambda a, b: True",
    ),
    "leaves a process that writes measurements later": (
        6, "7", "import json, os, time\nif os.fork() == 0:\n    os.setsid()\n    for _ in range(200):\n        time.sleep(0.05)\n"
        "        with open(os.environ['WASTEDCORES_COURSE_MEASURED'], 'a') as file:\n            for hidden, n in ((False, 1), (True, 2)):\n"
        "                value = {'suggest_cpu': [0] * 500}\n"
        "                file.write(json.dumps({'task': '7', 'hidden': hidden, 'measured': [{'value': value}] * n}) + '\\n')\n"
        "    os._exit(0)\nclass Spread(Module): pass",
    ),
    "hands in what was measured of another student": (
        4, "7", f"import os\nwith open(os.environ['WASTEDCORES_COURSE_MEASURED'], 'a') as file:\n    file.write({OTHER})\nlab = None",
    ),
    "hands in another student's measured groups": (
        3, "6", f"import os\nwith open(os.environ['WASTEDCORES_COURSE_MEASURED'], 'a') as file:\n    file.write({OTHER})\nlab = None",
    ),
    "hands in another student's measured choices": (
        5, "5", f"import os\nwith open(os.environ['WASTEDCORES_COURSE_MEASURED'], 'a') as file:\n    file.write({OTHER})\nlab = None",
    ),
    "hands in another student's measured suggestions": (
        6, "7", f"import os\nwith open(os.environ['WASTEDCORES_COURSE_MEASURED'], 'a') as file:\n    file.write({OTHER})\nlab = None",
    ),
    "makes a link of the measurements": (
        1, "1", "import os\npath = os.environ['WASTEDCORES_COURSE_MEASURED']\nif os.path.exists(path): os.remove(path)\n"
        "os.symlink('/etc/passwd', path)\nqueues = [0, 0]",
    ),
    "makes a pipe of the measurements": (
        1, "1", "import os\npath = os.environ['WASTEDCORES_COURSE_MEASURED']\nif os.path.exists(path): os.remove(path)\nos.mkfifo(path)\n"
        "import signal; signal.alarm(5)\nqueues = [0, 0]",
    ),
    "writes endless measurements": (
        2, "1", "import os\nwith open(os.environ['WASTEDCORES_COURSE_MEASURED'], 'a') as file:\n    file.write('[' * 60_000_000)\n"
        "near = []",
    ),
    "writes points into nbgrader's database and into the report": (
        4, "7", "import glob, json, sqlite3\nfor path in glob.glob('/submission/*.db'):\n    with sqlite3.connect(path) as db:\n"
        "        db.execute('update grade set auto_score = 100, manual_score = 100')\n"
        "open('/submission/report.json', 'w').write(json.dumps({str(i): 'right' for i in range(9)}))\nsteady = lambda a, b: True",
    ),
    # --- answers that are none
    "answers with an object that equals everything": (
        1, "1", "class Any(list):\n    def __eq__(self, other): return True\n    __ne__ = lambda self, other: False\n    __hash__ = None\n"
        "queues = Any([7, 7])",
    ),
    "answers with a number that is none": (1, "4", "wasted_ms = float('nan')"),
    "answers with numbers that are none": (1, "5", "longest = [float('nan')] * 5"),
    "answers with an infinite ratio": (5, "6", "ratio = float('inf')"),
    "answers with an endless list": (2, "3", "import itertools\nwithin = lambda *given: itertools.count()"),
    "answers with a deeply nested list": (
        3, "1", "groups = []\nfor _ in range(900): groups = [groups]",
    ),
    "answers with a number of a million digits": (5, "2", "chosen = 1 << 3_000_000"),
    "answers with CPUs far beyond the machine": (
        3, "6", "best = lambda cpu, span, below: [[10**9 + cpu]]",
    ),
    "answers with a text that is no text": (6, "3", "step = '\\ud800' * 1000 + '\\x1b[2J'"),
    "answers with a class that is no module": (
        6, "7", "class Meta(type):\n    def __subclasscheck__(cls, other): return True\n    def __instancecheck__(cls, other): return True\n"
        "class Spread(metaclass=Meta):\n    name = 'x'\n    def suggest_cpu(self, *given): return None",
    ),
    # --- functions that are wrong, or that change what asks them
    "compares averages the wrong way round": (
        4, "7", "def steady(local, busiest):\n    return local.avg_load < busiest.avg_load",
    ),
    "pulls always": (4, "7", "steady = lambda local, busiest: False"),
    "answers by the number of the call": (
        4, "7", "calls = []\ndef steady(local, busiest):\n    calls.append(1)\n    return len(calls) > 12",
    ),
    "changes the statistics that it is asked about": (
        4, "7", "def steady(local, busiest):\n    local.min_load = busiest.min_load = 0\n    local.idle_cpus = 0\n    return False",
    ),
    "changes the threads of the scheduler that asks": (
        5, "5", "import sys\ndef fix(prev_cpu, allowed, cpus):\n    frame = sys._getframe()\n    while frame:\n        k = frame.f_locals.get('k')\n"
        "        if hasattr(k, 'log_n'): k.log_n = 0\n        frame = frame.f_back\n    return None",
    ),
    "never chooses a CPU": (5, "5", "fix = lambda prev_cpu, allowed, cpus: None"),
    "chooses the CPU where the thread was, busy or not": (5, "5", "fix = lambda prev_cpu, allowed, cpus: prev_cpu"),
    "changes the counts of the core": (
        6, "7", "class Spread(Module):\n    def suggest_cpu(self, k, p, waker_cpu, why):\n"
        "        k = object.__getattribute__(k, '_of')\n        row = k.design.counts + k.design.module[0]\n        for why in range(16):\n"
        "            k[row, 3 * why + 1] += 1000\n            k[row, 3 * why + 2] = 0\n        return None",
    ),
    "removes the rule of the core": (
        6, "7", "from wastedcores.simulator.engine.design import core_jit\ncore_jit.refuse = core_jit.any_idle = lambda *given: None\n"
        "core_jit.is_free = lambda *given: True\nclass Spread(Module):\n"
        "    def suggest_cpu(self, k, p, waker_cpu, why):\n        return min(c for c in p.allowed if k.machine.node_of_cpu[c] == 0)",
    ),
    "copies half of the machine's answer": (
        3, "5", "def construct(cpu, span, below):\n    return [below[cpu]] + [[c for c in span if c not in below[cpu]]]",
    ),
    # --- attacks on the machine
    "sleeps for ever": (1, "2", "import time\nwhile True:\n    try: time.sleep(3600)\n    except BaseException: pass"),
    "forks without end": (
        5, "1", "import os, time\nwhile True:\n    try:\n        if os.fork() == 0:\n            while True: time.sleep(60)\n    except OSError: time.sleep(0.1)",
    ),
    "takes all memory": (2, "2", "x = []\nwhile True: x.append(bytearray(b'x' * 10_000_000))"),
    "fills the disk": (
        3, "4", "try:\n    with open('big', 'wb') as file:\n        while True: file.write(bytes(1 << 20))\nexcept OSError as e: prediction = str(e)",
    ),
    "asks a server": (
        6, "1", "import urllib.request\nbefore = urllib.request.urlopen('http://192.0.2.1/answers', timeout=5).read()",
    ),
    "kills every process that it sees": (
        5, "1", "import os, signal\nfor p in [int(p) for p in os.listdir('/proc') if p.isdigit()]:\n    if p != os.getpid():\n"
        "        try: os.kill(p, signal.SIGKILL)\n        except OSError: pass\nconsidered = []",
    ),
    "ends its process": (6, "2", "import os\nos._exit(0)"),
    "leaves with SystemExit": (6, "4", "raise SystemExit(0)"),
}  # fmt: skip
