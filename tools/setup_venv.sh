#!/bin/sh
# Make the virtual environment $1 with this checkout and the extras $2 (such as lab,dev), in the versions of requirements.lock.
# Debian has venv in a package of its own. If it is absent, root gets it installed and other users see the command.
set -eu
venv=$1
extras=$2
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "wastedcores needs Python 3.11 or newer; '$python' is $("$python" --version 2>&1 || echo absent)." >&2
    echo "Name another one: make PYTHON=python3.12 setup" >&2
    exit 2
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing python3-venv (Debian keeps it in a package of its own)"
        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
    else
        echo "'$python' has no venv module. On Debian/Ubuntu: sudo apt-get install python3-venv" >&2
        exit 2
    fi
fi
if [ ! -x "$venv/bin/python" ]; then
    echo "making $venv"
    "$python" -m venv "$venv"
fi
echo "installing the pinned packages of wastedcores[$extras] (a minute or two the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c requirements.lock hatchling editables
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c requirements.lock --no-build-isolation -e ".[$extras]"
