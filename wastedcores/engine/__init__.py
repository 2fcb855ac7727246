"""All compiled code. Imports numpy, numba and itself only: arrays in, arrays out."""
