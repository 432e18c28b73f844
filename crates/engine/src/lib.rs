//! The one pass: worker, plan, functions, ledger.
