"""The questions of each lab: how its variation is drawn, what a check measures, and how a wrong answer is explained."""
