//! Rules over flows in a pass, however their bytes are carried, divided and changed on the way.

#![allow(clippy::unwrap_used)]

mod carried;
mod carriers;
mod cases;
mod hostile;
mod run;
