//! What the protocol promises, theme by theme.

mod electing;
mod faults;
mod keeping;
