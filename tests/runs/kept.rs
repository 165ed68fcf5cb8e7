//! Main sessions that go on under the keys that they began with.

use std::collections::BTreeSet;
use std::path::Path;

use clawgate::sessions::KeyRules;

use super::{key, place};

#[tokio::test]
async fn a_session_that_was_deleted_while_rules_were_made_is_kept_by_none() {
    let place = place().await;
    place.sessions.ensure(&key(0), Path::new("/")).await.unwrap();
    let parts = place.runs.parts();
    let made = KeyRules { kept: [key(0), key(1)].into(), ..KeyRules::default() };
    parts.keys.set(made.clone());
    place.sessions.change_rules(|_| made.clone());
    let kept = || (parts.keys.now().kept.clone(), place.sessions.rules().kept.clone());
    parts.look_at_kept().await.unwrap();
    let one: BTreeSet<_> = [key(0)].into();
    assert_eq!(kept(), (one.clone(), one));
    // The rules of now are changed, whatever others have made of them meanwhile.
    let other = KeyRules { kept: [key(0), key(2)].into(), ..KeyRules::default() };
    place.sessions.change_rules(|_| other.clone());
    parts.session_deleted(&key(0));
    assert_eq!(kept(), (BTreeSet::new(), [key(2)].into()));
}
