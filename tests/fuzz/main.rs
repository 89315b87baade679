//! What comes from outside, made up: records and markers in the bucket, configuration files, what a watch and the server
//! tell, and whatever an election may hear, in any order and at any time.
//!
//! The properties are those of the fuzz targets in `fuzz/`; here each is tried on a few thousand inputs, on every input
//! that once broke it, and on some that are absurd by design.

#![cfg(unix)]

mod configs;
mod properties;
mod tried;
