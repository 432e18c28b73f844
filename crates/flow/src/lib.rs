//! The flow table, its timers and states, and IP fragments.
