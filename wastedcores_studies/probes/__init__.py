"""Small experiments on the running machine: what page faults cost, and how long an idle CPU needs to run a woken thread."""
