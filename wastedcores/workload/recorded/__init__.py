"""The workloads of the guest recordings, with the kernel threads of the guest."""
