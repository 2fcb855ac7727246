"""Reports and files for other programs: executed notebooks as offline pages, figures as files, traces for Perfetto."""
