"""Records of older schemas, made into records of today's: a pure function per step from one schema to the next."""
