"""Requirements of a lab and its parts that hosts must meet. Pure."""
