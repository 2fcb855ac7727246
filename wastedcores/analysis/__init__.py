"""What one trace or several say: the check with its context, comparisons and explanations."""
