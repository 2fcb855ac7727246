"""Tasks: what their programs do, and how they are born, sleep, wait for each other and exit."""
