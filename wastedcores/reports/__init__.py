"""Reports and files for others: executed notebooks as offline pages, figures as files, traces for Perfetto."""
