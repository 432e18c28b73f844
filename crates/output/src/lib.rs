//! Summary, logs and series of what the engine found.
