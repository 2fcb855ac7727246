"""Executed notebooks as pages that open offline, and other ways to hand a result on."""
