"""The records of measurements as frozen types, which `trial` creates, `store` writes, and `analysis` reads."""
