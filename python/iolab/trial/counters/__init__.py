"""What kernels, threads and guests counted while a trial ran, and what that tells of lost frames."""
