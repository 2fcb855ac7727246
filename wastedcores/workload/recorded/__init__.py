"""The workloads of the recordings of real kernels, and the guest machine that they ran on."""
