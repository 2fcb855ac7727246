"""The core module of the paper's section 5 and its optimisation modules. They are compiled only when a replay uses them."""
