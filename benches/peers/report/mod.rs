//! What was measured, as text, tables and plots. Nothing here runs anything.

pub mod plot;
pub mod sample;
pub mod table;
pub mod template;
