"""The one record: what is measured, as frozen types that `trial` fills, `store` writes, and `analysis` reads."""
