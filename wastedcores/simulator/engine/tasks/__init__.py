"""Tasks: what their programs do, how they are born, sleep, wait for each other and exit."""
