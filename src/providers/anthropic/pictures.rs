//! How many pictures the API takes, and how large.
//!
//! Owns: these limits. Promises: no picture of a conversation has its requests
//! refused; the oldest give way. Must not: touch anything else.

use super::super::pictures::{PictureSize, leave_out, newest_within, picture_fits};
use crate::protocol::message::{AgentMessage, ImageBlock};

/// Largest picture, in bytes of base64.
const BYTES_MAX: usize = 5 * 1024 * 1024;
/// Most base64 of all pictures together. A request has at most 32 MB, with all that is said
/// besides.
const SUM_MAX: usize = 24 * 1024 * 1024;
/// Most pictures of a request that has large ones.
const FEW: usize = 20;
/// Longest side of a picture that is not large, in pixels.
const SMALL_SIDE: u32 = 2000;
/// Most pictures of a request.
const MOST: usize = 100;

/// Leaves out what the API would refuse.
pub fn fit(messages: &mut [AgentMessage]) {
    leave_out(messages, 0, |image| {
        image.data.len() > BYTES_MAX || !picture_fits(PictureSize::of_base64(&image.data))
    });
    leave_out(messages, FEW, |image| !is_small(image));
    let most = MOST.min(newest_within(messages, SUM_MAX));
    leave_out(messages, most, |_| true);
}

fn is_small(image: &ImageBlock) -> bool {
    PictureSize::of_base64(&image.data).is_some_and(|size| size.is_within(SMALL_SIDE))
}
