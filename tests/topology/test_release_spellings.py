"""The releases of kernels as ``uname -r`` prints them on people's machines, phones and boards, and as recorders write them
down.
"""

from __future__ import annotations

import pytest

from wastedcores.kernels import recorded_balancer, recorded_kernel

#: what the sentence about the kernel must say (empty: there is none), then the releases, each with the model behind it where
#: the model is not the numbers themselves
RELEASES = {
    "": """
        4.1.3=v4.1 4.1.52 4.4.0-210-generic=v4.4 4.9.0-19-amd64=v4.9 4.13.9=v4.13 4.15.0-213-generic=v4.15 4.17.3-1-ARCH=v4.17
        4.19.0-26-amd64=v4.19 4.19.0-27-cloud-amd64=v4.19 5.0.0-23-generic=v5.0 5.3.0-1035-gcp=v5.3 5.4.0-190-generic=v5.4
        5.4.0-1103-aws=v5.4 5.4.0-1108-azure=v5.4 5.4.0-153-lowlatency=v5.4 5.10.0-9-amd64=v5.10 5.10.0-33-cloud-amd64=v5.10
        5.10.66#8SMPMonSep20_10:10:25PDT2021=v5.10.66 5.11.0-49-generic=v5.11 5.13.0-40-generic=v5.13 5.13.19-2-MANJARO=v5.13.19
        5.15.0-119-generic=v5.15 5.15.0-1061-aws=v5.15 5.15.0-1042-oracle=v5.15 5.15.0-1073-azure=v5.15
        5.15.0-107-lowlatency=v5.15
        5.15.90.1-microsoft-standard-WSL2=v5.15.90 5.15.146.1-microsoft-standard-WSL2=v5.15.146
        5.15.153.1-microsoft-standard-WSL2=v5.15.153 5.15.167.4-microsoft-standard-WSL2=v5.15.167 5.15.102-1-pve=v5.15.102
        5.16.0-0.bpo.4-amd64=v5.16 5.17.5-76051705-generic=v5.17.5 5.18.0-4-amd64=v5.18 5.19.0-50-generic=v5.19
        5.19.0-1030-aws=v5.19 6.0.0-6-amd64=v6.0 6.0.7-301.fc37.x86_64=v6.0.7 6.1.0-13-amd64=v6.1 6.1.0-22-amd64=v6.1
        6.1.0-28-cloud-amd64=v6.1 6.1.0-9-686-pae=v6.1 6.1.0-0.deb11.25-amd64=v6.1 6.1.58+=v6.1.58 6.1.85+=v6.1.85
        6.1.123+=v6.1.123
        6.1.77-99.164.amzn2023.x86_64=v6.1.77 6.1.102-111.187.amzn2023.x86_64=v6.1.102 6.1.128-136.201.amzn2023.x86_64=v6.1.128
        5.10.199-190.747.amzn2.x86_64=v5.10.199 4.14.355-275.570.amzn2.x86_64=v4.14 6.1.75-1-lts=v6.1.75 6.2.0-39-generic=v6.2
        6.2.0-1018-gcp=v6.2 6.2.16-3-pve=v6.2.16 6.2.16-4-bpo11-pve=v6.2.16 6.3.1-arch1-1=v6.3.1 6.4.0-kali3-amd64=v6.4
        6.5.0-0.deb12.4-amd64=v6.5 6.5.0-44-generic=v6.5 6.5.0-1024-azure=v6.5 6.5.6-76060506-generic=v6.5.6
        6.5.11-8-pve=v6.5.11
        6.5.13-1-pve=v6.5.13 6.6.9-amd64=v6.6.9 6.6.15-amd64=v6.6.15 6.6.13+bpo-amd64=v6.6.13 6.6.30-1-lts=v6.6.30
        6.6.30-gentoo=v6.6.30 6.6.30-gentoo-x86_64=v6.6.30 6.6.31-0-lts=v6.6.31 6.6.36.3-microsoft-standard-WSL2=v6.6.36
        6.6.87.2-microsoft-standard-WSL2=v6.6.87 6.6.87.2-microsoft-standard-WSL2+=v6.6.87 6.6.74-1-MANJARO=v6.6.74
        6.6.68_1=v6.6.68 6.6.56+=v6.6.56 6.6.97+=v6.6.97 6.7.0-060700-generic=v6.7 6.7.7-200.fc39.x86_64=v6.7.7
        6.8.0-31-generic=v6.8 6.8.0-45-generic=v6.8 6.8.0-49-lowlatency=v6.8 6.8.0-1015-aws=v6.8 6.8.0-1020-gke=v6.8
        6.8.0-1017-azure=v6.8 6.8.0-1021-oem=v6.8 6.8.4-2-pve=v6.8.4 6.8.12-4-pve=v6.8.12 6.8.9-300.fc40.x86_64=v6.8.9
        6.8.0-76060800daily20240311-generic=v6.8 6.9.3-76060903-generic=v6.9.3 6.9.7-1-default=v6.9.7 6.9.7-arch1-1=v6.9.7
        6.9.12-200.fc40.x86_64=v6.9.12 6.10.11+bpo-amd64=v6.10.11 6.10.6-amd64=v6.10.6 6.10.14-linuxkit=v6.10.14
        5.15.49-linuxkit=v5.15.49 4.19.121-linuxkit=v4.19 6.11.0-9-generic=v6.11 6.11.0-1007-oem=v6.11
        6.11.4-301.fc41.x86_64=v6.11.4
        6.11.2-amd64=v6.11.2 6.11.11+bpo-amd64=v6.11.11 6.12.0+=v6.12 6.12.6-200.fc41.x86_64=v6.12.6 6.12.8-arch1-1=v6.12.8
        6.12.9+bpo-amd64=v6.12.9 6.12.9-amd64=v6.12.9 6.12.10_1=v6.12.10 6.12.12+bpo-amd64=v6.12.12 6.12.13-amd64=v6.12.13
        6.12.20-1-MANJARO=v6.12.20 6.12.25-amd64=v6.12.25 6.12.38+deb13-amd64=v6.12.38 6.12.43+deb13-cloud-amd64=v6.12.43
        6.12.48+deb13-amd64=v6.12.48 6.12.107+deb13-amd64=v6.12.107 6.12.107+deb12-amd64=v6.12.107 6.12.29-1-lts=v6.12.29
        6.12.31-talos=v6.12.31 6.12.44-0-virt=v6.12.44 6.12-rc1=v6.12 6.12.0-rc7-00123-g2e529e637cef=v6.12
        6.12.0-rc4-next-20241024=v6.12 6.13.0-061300-generic=v6.13 6.13.2-arch1-1=v6.13.2 6.13.5-zabbly+=v6.13.5
        6.13.9-100.fc40.x86_64=v6.13.9 6.14.0-15-generic=v6.14 6.14.0-1010-aws=v6.14 6.14.0-29-generic=v6.14
        6.14.8-2-pve=v6.14.8
        6.14.3-101.bazzite.fc42.x86_64=v6.14.3 6.14.6-300.fc42.x86_64=v6.14.6 6.15.3-200.fc42.x86_64=v6.15.3
        6.15.8-1-default=v6.15.8
        6.15.0-dirty=v6.15 6.16.0+=v6.16 6.16.3-76061603-generic=v6.16.3 6.16.8-1-MANJARO=v6.16.8
        6.16.12-valve24.5-1-neptune-616=v6.16.12
        6.17.0-5-generic=v6.17 6.17.0-8-generic=v6.17 6.17.0-0.rc3.250820gb19a97d57c15.33.fc44.x86_64=v6.17
        6.17.1-300.fc43.x86_64=v6.17.1 6.17.2-arch1-1=v6.17.2 6.17.8-orbstack=v6.17.8 6.18.0-rc3+=v6.18
        6.18.0-next-20251201=v6.18
        6.18.1-arch1-1=v6.18.1 6.18.44-fc-v769=v6.18.44 6.18.5-fc-v71=v6.18.5 7.2.13+deb14-amd64=v7.2.13
        5.15.0-1.el8.elrepo.x86_64=v5.15 6.9.1-1.el9.elrepo.x86_64=v6.9.1 5.19.0_experimental=v5.19
        4.19.113-22067904=v4.19 4.9.337-perf+=v4.9 4.14.117-perf+=v4.14 4.19.157-perf-g92c089fc2d37=v4.19
        4.4.0-19041-Microsoft=v4.4
    """,
    "later releases": """
        4.18.0-348.el8.x86_64=v4.18 4.18.0-477.10.1.el8_8.x86_64=v4.18 4.18.0-553.el8_10.x86_64=v4.18
        5.14.0-70.13.1.el9_0.x86_64=v5.14 5.14.0-427.13.1.el9_4.x86_64=v5.14 5.14.0-503.el9.x86_64=v5.14
        5.14.0-570.22.1.el9_6.x86_64=v5.14 5.14.0-605.el9.x86_64=v5.14 6.12.0-55.9.1.el10_0.x86_64=v6.12
        5.4.17-2136.330.7.5.el8uek.x86_64=v5.4 5.15.0-204.147.6.2.el9uek.x86_64=v5.15 5.3.18-150300.59.93-default=v5.3
        5.14.21-150500.55.52-default=v5.14.21 6.4.0-150600.23.25-default=v6.4 4.12.14-122.37-default=v4.12
        5.3.18-lp152.106-default=v5.3 5.10.0-136.12.0.86.oe2203sp1.x86_64=v5.10 5.10.134-16.3.an8.x86_64=v5.10.134
        5.10.134-17.3.al8.x86_64=v5.10.134 5.4.119-19-0009.11.tl3=v5.4
    """,
    "its vendor changes": """
        5.10.43-android12-9-00007-g9771767708df-ab8009062=v5.10.43 5.10.198-android12-9-00019-g4ea09a298bb4-ab11740460=v5.10.198
        5.10.157-android13-4-00001-g5c7ff5dc7aac-ab10381520=v5.10.157 5.15.78-android13-8-g60893c660740-dirty=v5.15.78
        5.15.137-android14-11-gb572b1d91cf2-ab11526834=v5.15.137 6.1.25-android14-11-00034-ga3c5e9fcad5a-ab10974005-4k=v6.1.25
        6.1.75-android14-11-g48b922851ac5-ab12039954=v6.1.75 6.6.50-android15-8-abogkiS921BXXS4=v6.6.50
        6.6.56-android15-8-g0123456789ab-4k=v6.6.56 6.12.23-android16-5-g22d96a45f1c2=v6.12.23 6.12.1-zen1-1-zen=v6.12.1
        6.11.0-1-liquorix-amd64=v6.11 6.12.3-2-cachyos=v6.12.3 6.14.2-2-cachyos-bore=v6.14.2 6.12.8-x64v3-xanmod1=v6.12.8
        6.10.10-xanmod1-1=v6.10.10 5.15.52-tkg-bmq=v5.15.52
    """,
    "for real time": """
        4.19.0-26-rt-amd64=v4.19 5.10.0-28-rt-amd64=v5.10 5.10.204-rt100=v5.10.204 5.15.0+rt=v5.15 5.15.0-1033-realtime=v5.15
        5.15.86-rt56=v5.15.86 6.1.0-18-rt-amd64=v6.1 6.6.30-rt30=v6.6.30 6.8.2-rt11=v6.8.2 6.12.43+deb13-rt-amd64=v6.12.43
        6.6.52-rt-rt43=v6.6.52
    """,
    "not for x86-64": """
        6.6.51+rpt-rpi-v8=v6.6.51 6.6.31+rpt-rpi-2712=v6.6.31 6.1.21-v7+=v6.1.21 6.1.21-v8+=v6.1.21 5.10.103-v7l+=v5.10.103
        4.19.66-v7+=v4.19 6.12.25+rpt-rpi-v7=v6.12.25 5.15.0-1061-raspi=v5.15 6.8.0-1018-raspi=v6.8 5.10.0-26-arm64=v5.10
        6.1.0-18-armmp=v6.1 6.1.0-21-arm64=v6.1 6.17.0-300.fc43.aarch64=v6.17 6.8.9-300.fc40.aarch64=v6.8.9
        6.1.0-18-powerpc64le=v6.1
    """,
    "between v6.18 and v7.2": "6.19.3-arch1-1=v6.19.3 7.0.1+deb14-amd64=v7.0.1 7.1.5=v7.1.5 6.19.0-rc1=v6.19",
    "newer than v7.2": "7.3.0-rc1+=v7.2 7.12.1-arch1-1=v7.2 8.0.0=v7.2",
    "older than v3.19": """
        2.6.32-5-amd64=v3.19 3.10.0-1160.el7.x86_64=v3.19 2.6.32-754.el6.x86_64=v3.19 3.2.0-4-amd64=v3.19 3.10.31-ltsi=v3.19
        3.10.92-stih418_family+=v3.19 3.6.11-1-ARCH=v3.19
        3.13.0-170-generic=v3.19 3.16.0-11-amd64=v3.19 3.18.31-perf-g7b1e9ba=v3.19 3.4.0-perf=v3.19
    """,
}
CASES = [
    (release, model or f"v{release}", said)
    for said, text in RELEASES.items()
    for release, _, model in (word.partition("=") for word in text.split())
]


def test_there_are_about_two_hundred_different_ones():
    releases = [release for release, _, _ in CASES]
    assert len(set(releases)) == len(releases)
    assert len(releases) >= 200


@pytest.mark.parametrize(("release", "model", "said"), CASES, ids=[c[0] for c in CASES])
def test_a_release_gets_its_model_and_the_right_sentence(release, model, said):
    found, note = recorded_kernel(release)
    assert found.name == model
    assert (note is None) if not said else (said in note)
    assert recorded_balancer(release).nearest  # it gets an answer, too


@pytest.mark.parametrize(
    ("written", "release"),
    [
        ("5.10.66#8SMPMonSep20_10:10:25PDT2021", "5.10.66"),
        ("Linux 6.1.0-13-amd64", "6.1.0-13-amd64"),
        ("6.8.0-45-generic x86_64", "6.8.0-45-generic"),
        (
            "6.8.0-45-generic #45-Ubuntu SMP PREEMPT_DYNAMIC Fri Aug 30 12:02:04 UTC 2024",
            "6.8.0-45-generic",
        ),
    ],
)
def test_what_recorders_write_behind_a_release_does_not_count(written, release):
    assert recorded_kernel(written) == recorded_kernel(release)
    assert recorded_balancer(written) == recorded_balancer(release)
