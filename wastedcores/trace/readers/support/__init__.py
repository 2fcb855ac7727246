"""Code that several readers share: the protocol of a reading, blocks of text, columns, names, a parallel map."""
