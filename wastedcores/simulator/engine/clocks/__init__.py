"""The clocks of the CPUs, which are compiled only for machines that have clocks."""
