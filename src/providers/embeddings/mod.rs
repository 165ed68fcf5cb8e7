//! Vectors of texts.
//!
//! Owns: whom to ask for them, each provider's way of being asked, how many texts
//! at a time. Promises: one vector for each text, in their order, of finite
//! numbers and one length; else it is an error. Must not: ask a second model
//! when one fails: vectors of two models mean different things.

mod ask;
mod choice;
mod openai;
mod others;

pub use choice::{EmbeddingModel, EmbeddingSettings, EmbeddingsRefused};

/// What a provider made of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// A vector for each text, in their order.
    pub vectors: Vec<Vec<f64>>,
    /// Tokens that were read, as far as the provider tells.
    pub tokens: u64,
}

/// What a provider is asked.
#[derive(Debug, Clone, Copy)]
struct Batch<'a> {
    texts: &'a [String],
    /// How many numbers a vector shall have.
    dimensions: Option<u32>,
}

/// The vectors, each of length 1: some providers leave that to whoever asks.
fn normalized(mut vectors: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    /// A shorter vector has no direction.
    const LEAST: f64 = 1e-10;
    for vector in &mut vectors {
        let length = vector.iter().map(|number| number * number).sum::<f64>().sqrt();
        if length > LEAST {
            for number in vector {
                *number /= length;
            }
        }
    }
    vectors
}
