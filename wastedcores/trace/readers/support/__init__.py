"""What several readers share: blocks of text, columns, names, threads that read ahead."""
