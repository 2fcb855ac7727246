"""One module per published result: the scenario, what is calibrated, what is predicted."""
