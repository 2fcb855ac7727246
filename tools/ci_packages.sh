#!/bin/sh
# Distribution packages that no wheel carries and that some tests use; only as root on Debian/Ubuntu, otherwise those
# tests skip and say why. chromium: real-browser checks. linux-perf: perf script as the importer's peer.
# trace-cmd: what reads trace.dat.
# python3-bpfcc, linux-headers: the collectors (the headers may be of another kernel: every kernel structure comes from
# BTF, and the collectors show the tree to bcc themselves, so nothing is linked under /lib/modules).
# stress-ng, sysbench: loads under which the online checker must stay silent.
set -eu
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
want=""
command -v chromium >/dev/null || want="$want chromium"
command -v perf >/dev/null || want="$want linux-perf"
command -v trace-cmd >/dev/null || want="$want trace-cmd"
command -v stress-ng >/dev/null || want="$want stress-ng"
command -v sysbench >/dev/null || want="$want sysbench"
/usr/bin/python3 -c 'import bcc' 2>/dev/null || want="$want python3-bpfcc"
if [ ! -e "/lib/modules/$(uname -r)/build" ] && ! ls -d /usr/src/linux-headers-* >/dev/null 2>&1; then
    case $(. /etc/os-release && echo "$ID") in
        ubuntu) want="$want linux-headers-generic" ;;
        *) want="$want linux-headers-$(dpkg --print-architecture)" ;;
    esac
fi
# the older-kernel guest of tests/live/test_considered.py: half a gigabyte, so only where the slow tests are wanted
if [ "${WASTEDCORES_SLOW:-0}" = 1 ]; then
    command -v qemu-system-x86_64 >/dev/null || want="$want qemu-system-x86"
    command -v busybox >/dev/null || want="$want busybox-static"
    command -v cpio >/dev/null || want="$want cpio"
fi
# tracefs is not mounted on every machine; the importers' and the collectors' tests use it
[ -d /sys/kernel/tracing/instances ] || mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null || true
[ -z "$want" ] && exit 0
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $want >/dev/null
