#!/bin/sh
# Install the distribution's packages that no wheel carries and that some tests use. This happens only as root on Debian
# and Ubuntu; elsewhere those tests are skipped and say why.
#   chromium                      checks in a real browser
#   linux-perf                    perf script, with which the importer is compared
#   trace-cmd                     the program that reads trace.dat
#   babeltrace2                   the program that reads the Common Trace Format
#   python3-bpfcc, linux-headers  the collectors; the headers may be those of another kernel, because every kernel
#                                 structure comes from BTF and the collectors show the tree to bcc themselves
#   clang, llvm, libbpf-dev       the object of the online checker (make bpf)
#   stress-ng, sysbench           loads under which the online checker must stay silent
#   prometheus                    promtool judges the metrics and the rules, and a Prometheus scrapes the service (22 MB to fetch)
set -eu
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
want=""
command -v chromium >/dev/null || want="$want chromium"
command -v perf >/dev/null || want="$want linux-perf"
command -v trace-cmd >/dev/null || want="$want trace-cmd"
command -v babeltrace2 >/dev/null || want="$want babeltrace2"
command -v stress-ng >/dev/null || want="$want stress-ng"
command -v sysbench >/dev/null || want="$want sysbench"
command -v promtool >/dev/null || want="$want prometheus"
command -v llvm-strip >/dev/null || command -v llvm-strip-14 >/dev/null || want="$want llvm"
command -v clang >/dev/null && [ -e /usr/include/bpf/bpf_helpers.h ] || want="$want clang libbpf-dev"
/usr/bin/python3 -c 'import bcc' 2>/dev/null || want="$want python3-bpfcc"
if [ ! -e "/lib/modules/$(uname -r)/build" ] && ! ls -d /usr/src/linux-headers-* >/dev/null 2>&1; then
    case $(. /etc/os-release && echo "$ID") in
        ubuntu) want="$want linux-headers-generic" ;;
        *) want="$want linux-headers-$(dpkg --print-architecture)" ;;
    esac
fi
# the guest with an older kernel in tests/live/test_considered.py needs half a gigabyte, so only for the slow tests
if [ "${WASTEDCORES_SLOW:-0}" = 1 ]; then
    command -v qemu-system-x86_64 >/dev/null || want="$want qemu-system-x86"
    command -v busybox >/dev/null || want="$want busybox-static"
    command -v cpio >/dev/null || want="$want cpio"
fi
# the tests of the importers and the collectors use tracefs, which is not mounted on every machine
[ -d /sys/kernel/tracing/instances ] || mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null || true
[ -z "$want" ] && exit 0
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $want >/dev/null
