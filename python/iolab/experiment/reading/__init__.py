"""Read text into checked sections: YAML, attached files, renamed keys, and problems with their lines."""
