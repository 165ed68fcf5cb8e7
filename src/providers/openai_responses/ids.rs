//! Ids of calls and items.
//!
//! Owns: the form `call|item` that a call's id has in our messages, and what
//! the API accepts of it.

use super::super::compose::fit;

/// The longest id that the API accepts.
const MAX_ID: usize = 64;
/// Items of calls begin so.
const ITEM_PREFIX: &str = "fc";

/// The two halves of an id; other APIs have given no item.
pub fn halves(id: &str) -> (&str, Option<&str>) {
    match id.split_once('|') {
        Some((call, item)) => (call, Some(item.split('|').next().unwrap_or(item))),
        None => (id, None),
    }
}

/// An id that another model has given, made fit for the API.
pub fn wire_id(id: &str) -> String {
    let (call, item) = halves(id);
    let call = fitting(call);
    match item.filter(|item| !item.is_empty()) {
        Some(item) if item.starts_with(ITEM_PREFIX) => format!("{call}|{}", fitting(item)),
        Some(item) => format!("{call}|{}", fitting(&format!("{ITEM_PREFIX}_{item}"))),
        None => call,
    }
}

fn fitting(half: &str) -> String {
    fit(half, MAX_ID).trim_end_matches('_').to_owned()
}

/// The id of a message item, from what the answer was signed with.
pub fn message_id(signature: &str) -> String {
    if signature.len() > MAX_ID {
        format!("msg_{}", short_hash(signature))
    } else {
        signature.to_owned()
    }
}

/// The hash that the original shortens ids with: the prompt must stay the same
/// when a conversation goes on here, or the provider's cache is lost.
fn short_hash(text: &str) -> String {
    let (mut high, mut low) = (0xdead_beef_u32, 0x41c6_ce57_u32);
    for unit in text.encode_utf16() {
        high = (high ^ u32::from(unit)).wrapping_mul(2_654_435_761);
        low = (low ^ u32::from(unit)).wrapping_mul(1_597_334_677);
    }
    let mix = |one: u32, other: u32| {
        (one ^ (one >> 16)).wrapping_mul(2_246_822_507)
            ^ (other ^ (other >> 13)).wrapping_mul(3_266_489_909)
    };
    high = mix(high, low);
    low = mix(low, high);
    base_36(low) + &base_36(high)
}

fn base_36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_other_models_are_made_fit() {
        assert_eq!(wire_id("toolu_1"), "toolu_1");
        assert_eq!(wire_id("functions.read:0"), "functions_read_0");
        assert_eq!(wire_id(&"r".repeat(90)), "r".repeat(64));
        assert_eq!(wire_id("call.1|item+/=="), "call_1|fc_item");
        assert_eq!(wire_id("call_1|"), "call_1");
        let long = format!("call_{}|fc_{}", "c".repeat(90), "+".repeat(90));
        assert_eq!(wire_id(&long), format!("call_{}|fc", "c".repeat(59)));
    }

    #[test]
    fn a_long_id_is_hashed_as_the_original_hashes_it() {
        assert_eq!(message_id("msg_1"), "msg_1");
        assert_eq!(message_id(&"a".repeat(65)), "msg_ukn6xk14snk63");
    }

    #[test]
    fn an_id_has_two_halves_or_one() {
        assert_eq!(halves("call_1|fc_1|x"), ("call_1", Some("fc_1")));
        assert_eq!(halves("toolu_1"), ("toolu_1", None));
    }
}
