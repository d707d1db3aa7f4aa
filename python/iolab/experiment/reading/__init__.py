"""From text to checked sections: YAML, files that it names, old keys, and problems with their lines."""
