//! Plain data that crosses a boundary: what is asked and what is answered.
