class Comparison: pass
def compare(): pass
