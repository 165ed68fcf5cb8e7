//! Accounts that would be in each other's way.

use super::account::{ChannelAccount, ChannelWay};
use crate::config::secrets::SecretInput;
use crate::support::sort;

/// Makes one of two accounts unusable that have one bot or one path, the later one or the one
/// that is not the default of its channel: it would hear nothing, or what the other one hears.
pub(super) fn part(accounts: &mut [ChannelAccount]) {
    let mut ranked: Vec<_> = accounts.iter_mut().filter(|account| account.enabled).collect();
    sort::by_key(&mut ranked, |account| (account.kind, !account.is_default));
    for at in 1..ranked.len() {
        let (before, rest) = ranked.split_at_mut(at);
        let Some(account) = rest.first_mut() else { continue };
        if let Some(why) = before.iter().find_map(|other| clash(other, account)) {
            account.way = Err(why);
        }
    }
}

/// Why the second of two cannot be used beside the first.
fn clash(first: &ChannelAccount, second: &ChannelAccount) -> Option<String> {
    let name = format!("account {} of {}", first.id, first.kind.as_str());
    if token(first).is_some() && token(first) == token(second) {
        return Some(format!("botToken is that of {name} as well"));
    }
    let path = second.inbound_path()?;
    (first.inbound_path() == Some(path)).then(|| format!("{path} is the path of {name} as well"))
}

fn token(account: &ChannelAccount) -> Option<&SecretInput> {
    match &account.way {
        Ok(ChannelWay::Telegram(telegram)) => Some(&telegram.token),
        Ok(ChannelWay::Webhook(_)) | Err(_) => None,
    }
}
