//! The properties that the fuzz targets try to break: the very ones that `cargo test` tries on a few thousand inputs.

#[path = "../../tests/fuzz/properties/mod.rs"]
pub mod properties;
