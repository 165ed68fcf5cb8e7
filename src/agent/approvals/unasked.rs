//! A permit where nobody is asked.

use super::denial::Denial;
use super::permit::{Binding, Permit};
use super::request::ExecRequest;

/// The permit of the default policy: everything may run, and nobody is asked.
///
/// # Errors
/// When the directory cannot be used.
pub async fn unasked(request: &ExecRequest) -> Result<Permit, Denial> {
    let binding = Binding::take(request, None).await;
    let binding = binding.map_err(|error| Denial::unreadable(request, &error))?;
    Ok(Permit::issue(request, binding, None, None))
}
