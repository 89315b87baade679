//! The server's answers as the store reads them, for tests that construct answers.

use super::error::StoreError;
use super::info::{BucketInfo, StreamInfo};
use super::read::{message_in, standing_fence, standing_role};
use super::request::understood;
use nats_elect_core::name::BucketName;
use nats_elect_core::record::{Entry, FenceEntry};

/// Reads the answer to a read of a role's key.
pub fn role_answer(answer: &[u8], bucket: &BucketName) -> Result<Option<Entry>, StoreError> {
    Ok(message_in(understood(answer, bucket))?.map(standing_role))
}

/// Reads the answer to a read of a role's fence key.
pub fn fence_answer(answer: &[u8], bucket: &BucketName) -> Result<Option<FenceEntry>, StoreError> {
    Ok(message_in(understood(answer, bucket))?.map(standing_fence))
}

/// Reads the answer to a request for the bucket's info.
pub fn bucket_answer(answer: &[u8], bucket: &BucketName) -> Result<BucketInfo, StoreError> {
    understood::<StreamInfo>(answer, bucket)?.assess(bucket)
}
